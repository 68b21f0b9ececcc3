"""The engine, to be read in this order: tracer, primitive, tape, reverse, forward, batch."""
