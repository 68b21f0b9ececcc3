"""The transforms: functions from functions to functions, over the core's two replays and its batching."""
