"""Autograd as a person who has learnt PyTorch knows it: gradients, hooks, custom Functions, modes, checks.

`PROGRAMS` says what PyTorch 2.13 prints: see `torch_programs`.
"""

import asyncio
import gc
import warnings

import numpy as np
import pytest
import torch_programs

import functrace.torch as torch
from functrace.torch.autograd import forward_ad, gradcheck, gradgradcheck
from functrace.torch.autograd.function import once_differentiable
from functrace.torch.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

PROGRAMS = r"""
## function_saves_frees_and_names_its_node
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        r = i.exp(); ctx.save_for_backward(r); return r
    @staticmethod
    def backward(ctx, g):
        r, = ctx.saved_tensors
        return g * r
x = torch.tensor([1.,2.], requires_grad=True)
y = Exp.apply(x)
print(y, y.grad_fn, y.grad_fn.name(), y.grad_fn.next_functions, y.is_leaf)
y.sum().backward(); print(x.grad)
try: y.sum().backward()
except RuntimeError as e: print(e)
print(Exp.apply(x.detach()).grad_fn)
#> tensor([2.7183, 7.3891], grad_fn=<ExpBackward>) <torch.autograd.function.ExpBackward object at 0x> ExpBackward ((<AccumulateGrad object at 0x>, 0),) False
#> tensor([2.7183, 7.3891])
#> Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.
#> None
## function_kwargs_and_needs_input_grad
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, c):
        print(ctx.needs_input_grad); ctx.c = c
        return a*b*c
    @staticmethod
    def backward(ctx, g):
        print(ctx.needs_input_grad, ctx.c); return g, g
x = torch.ones(2, requires_grad=True)
F.apply(x, torch.ones(2), 3).sum().backward()
#> (True, False, False)
#> (True, False, False) 3
#> ! RuntimeError: function FBackward returned an incorrect number of gradients (expected 3, got 2)
## function_wants_one_gradient_for_each_argument
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a*b
    @staticmethod
    def backward(ctx, g):
        return g
x = torch.ones(2, requires_grad=True)
F.apply(x, torch.ones(2)).sum().backward()
#> ! RuntimeError: function FBackward returned an incorrect number of gradients (expected 2, got 1)
## function_refuses_gradients_that_are_no_tensors
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a*b
    @staticmethod
    def backward(ctx, g):
        return g, 3
x = torch.ones(2, requires_grad=True)
F.apply(x, torch.ones(2)).sum().backward()
#> ! RuntimeError: expected Variable or None (got int)
## function_may_return_more_nones
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a*b
    @staticmethod
    def backward(ctx, g):
        return g, None, None
x = torch.ones(2, requires_grad=True)
F.apply(x, torch.ones(2)).sum().backward()
print(x.grad)
#> tensor([1., 1.])
## function_refuses_gradients_of_another_shape
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a*2
    @staticmethod
    def backward(ctx, g):
        return g[:1]
x = torch.ones(2, requires_grad=True)
F.apply(x).sum().backward()
print(x.grad)
#> ! RuntimeError: Function FBackward returned an invalid gradient at index 0 - got [1] but expected shape compatible with [2]
## function_without_backward_says_so
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a*2
x = torch.ones(2, requires_grad=True)
F.apply(x).sum().backward()
#> ! NotImplementedError: You must implement either the backward or vjp method for your custom autograd.Function to use it with backward
## function_without_forward_says_so
class F(torch.autograd.Function):
    pass
F.apply(torch.ones(2, requires_grad=True))
#> ! NotImplementedError: You must implement the forward function for custom autograd.Function.
## function_objects_are_refused
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a*2
    @staticmethod
    def backward(ctx, g): return g
F()(torch.ones(2))
#> ! RuntimeError: Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function
## function_with_setup_context_and_two_outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(a, b):
        return a*b, a+b
    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(a, b)
        print(type(output), len(output))
    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return g*b+h, g*a+h
a = torch.tensor([1.,2.], requires_grad=True); b = torch.tensor([3.,4.], requires_grad=True)
p, q = F.apply(a, b)
print(p, q, p.output_nr, q.output_nr, p.grad_fn is q.grad_fn)
p.sum().backward(); print(a.grad, b.grad)
#> <class 'tuple'> 2
#> tensor([3., 8.], grad_fn=<FBackward>) tensor([4., 6.], grad_fn=<FBackward>) 0 1 True
#> tensor([3., 4.]) tensor([1., 2.])
## function_gets_none_if_grads_are_not_materialized
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a*1, a*2
    @staticmethod
    def backward(ctx, g, h):
        print(g, h); return g
a = torch.tensor([1.,2.], requires_grad=True)
p, q = F.apply(a); p.sum().backward(); print(a.grad)
#> tensor([1., 1.]) None
#> tensor([1., 1.])
## function_gets_zeros_if_they_are
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a*1, a*2
    @staticmethod
    def backward(ctx, g, h):
        print(g, h); return g
a = torch.tensor([1.,2.], requires_grad=True)
p, q = F.apply(a); p.sum().backward(); print(a.grad)
#> tensor([1., 1.]) tensor([0., 0.])
#> tensor([1., 1.])
## function_marks_integer_outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        s, i = a.sort(); ctx.mark_non_differentiable(i); ctx.save_for_backward(i); return s, i
    @staticmethod
    def backward(ctx, g, h):
        print(g, h)
        i, = ctx.saved_tensors
        out = torch.zeros_like(g); out[i] = g; return out
a = torch.tensor([3.,1.,2.], requires_grad=True)
s, i = F.apply(a); print(s, i, i.requires_grad); (s*torch.arange(3.)).sum().backward(); print(a.grad)
#> tensor([1., 2., 3.], grad_fn=<FBackward>) tensor([1, 2, 0]) False
#> tensor([0., 1., 2.]) tensor([0, 0, 0])
#> tensor([2., 0., 1.])
## function_marks_float_outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        m = a * 2
        ctx.mark_non_differentiable(m); return a+1, m
    @staticmethod
    def backward(ctx, g, h):
        print(g, h)
        return g
a = torch.tensor([3.,1.,2.], requires_grad=True)
s, i = F.apply(a); print(s, i, i.requires_grad, i.grad_fn); s.sum().backward(); print(a.grad)
#> tensor([4., 2., 3.], grad_fn=<FBackward>) tensor([6., 2., 4.]) False None
#> tensor([1., 1., 1.]) tensor([0., 0., 0.])
#> tensor([1., 1., 1.])
## function_dirty_leaf_is_refused
a = torch.tensor([3.,1.], requires_grad=True)
class Inc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        a.add_(1); ctx.mark_dirty(a); return a
    @staticmethod
    def backward(ctx, g):
        return g*10
Inc.apply(a)
#> ! RuntimeError: a leaf Variable that requires grad has been used in an in-place operation.
## function_dirty_must_be_returned
class Inc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        a.add_(1); ctx.mark_dirty(a); return a * 1
    @staticmethod
    def backward(ctx, g):
        return g*10
a = torch.tensor([3.,1.], requires_grad=True)
b = a*2
Inc.apply(b).sum().backward(); print(a.grad)
#> ! RuntimeError: Some elements marked as dirty during the forward method were not returned as output. The inputs that are modif
## function_returning_its_input_gives_a_view
class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a
    @staticmethod
    def backward(ctx, g):
        return g*10
a = torch.tensor([3.,1.], requires_grad=True)
b = Id.apply(a); print(b is a, b, b.grad_fn, b._is_view()); b.sum().backward(); print(a.grad)
#> False tensor([3., 1.], grad_fn=<IdBackward>) <torch.autograd.function.IdBackward object at 0x> True
#> tensor([10., 10.])
## function_views_refuse_writes
class V(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a.view(2,1)
    @staticmethod
    def backward(ctx, g):
        return g.view(2)*10
a = torch.tensor([3.,1.], requires_grad=True)
b = V.apply(a*1); print(b is a, b, b.grad_fn, b._is_view()); b.add_(1)
#> False tensor([[3.],
#>         [1.]], grad_fn=<VBackward>) <torch.autograd.function.VBackward object at 0x> True
#> ! RuntimeError: Output 0 of V is a view and is being modified inplace. This view was created inside a custom Function (or beca
## function_backward_is_differentiated
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x); return x**3
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g*3*x**2
x = torch.tensor(2., requires_grad=True)
y = Cube.apply(x)
g, = torch.autograd.grad(y, x, create_graph=True)
print(g)
h, = torch.autograd.grad(g, x, create_graph=True); print(h)
k, = torch.autograd.grad(h, x); print(k)
#> tensor(12., grad_fn=<MulBackward0>)
#> tensor(12., grad_fn=<MulBackward0>)
#> tensor(6.)
## function_once_differentiable
from torch.autograd.function import once_differentiable
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x); return x**3
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g*3*x**2
x = torch.tensor(2., requires_grad=True)
y = Cube.apply(x)
g, = torch.autograd.grad(y, x, create_graph=True)
print(g)
h, = torch.autograd.grad(g, x, create_graph=True); print(h)
#> tensor(12.)
#> ! RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
## function_saves_tensors_only
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None, 3); return x**3
    @staticmethod
    def backward(ctx, g):
        return g
x = torch.tensor(2., requires_grad=True)
y = F.apply(x)
#> ! TypeError: save_for_backward can only save variables, but argument 2 is of type int
## function_saved_input_is_the_input
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None); return x**3
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        print(a is x, b, ctx.saved_variables if hasattr(ctx, 'saved_variables') else None)
        return g
x = torch.tensor(2., requires_grad=True)
y = F.apply(x); y.backward()
#> True None (tensor(2., requires_grad=True), None)
## function_notices_writes_to_saved
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x); return x**3
    @staticmethod
    def backward(ctx, g):
        a, = ctx.saved_tensors
        return g
x = torch.tensor([2.], requires_grad=True)*1
y = F.apply(x); x.add_(1); y.backward()
#> ! RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTe
## function_passes_other_outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x*2, 'hello', 3, None
    @staticmethod
    def backward(ctx, g, *r):
        print(r)
        return g
x = torch.tensor([2.], requires_grad=True)*1
y = F.apply(x); print(y); y[0].backward()
#> (tensor([4.], grad_fn=<FBackward>), 'hello', 3, None)
#> (None, None, None)
## function_without_tensor_outputs
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 'hello'
    @staticmethod
    def backward(ctx, g, *r):
        return g
x = torch.tensor([2.], requires_grad=True)*1
y = F.apply(x); print(y)
#> hello
## function_keyword_arguments
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, l, d=None):
        print(l, d)
        return x*2
    @staticmethod
    def backward(ctx, g):
        return g, None
x = torch.tensor([2.], requires_grad=True)
F.apply(x, [x], d=3)
#> [tensor([2.], requires_grad=True)] 3
## function_gradient_is_cast
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x*2
    @staticmethod
    def backward(ctx, g):
        return g.double()
x = torch.tensor([2.], requires_grad=True)
F.apply(x).backward(); print(x.grad)
#> tensor([1.])
## hook_may_not_change_dtype
x = torch.tensor([1.,2.], requires_grad=True)
h = x.register_hook(lambda g: g.double())
(x*2).sum().backward()
#> ! RuntimeError: hook '<lambda>' has changed the type of value (was torch.FloatTensor got torch.DoubleTensor)
## hook_may_not_change_shape
x = torch.tensor([1.,2.], requires_grad=True)
h = x.register_hook(lambda g: g[:1])
(x*2).sum().backward()
#> ! RuntimeError: hook '<lambda>' has changed the size of value
## hook_returns_tensors_only
x = torch.tensor([1.,2.], requires_grad=True)
h = x.register_hook(lambda g: 3)
(x*2).sum().backward()
#> ! TypeError: expected Variable, but hook returned 'int'
## hook_on_nonleaf_may_not_change_shape
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.register_hook(lambda g: g[:1])
y.sum().backward()
#> ! RuntimeError: hook '<lambda>' has changed the size of value
## hooks_run_in_order_and_are_removed
x = torch.tensor([1.,2.], requires_grad=True)
h = x.register_hook(lambda g: print('a', g))
h2 = x.register_hook(lambda g: g*2)
h3 = x.register_hook(lambda g: print('c', g))
(x*2).sum().backward(); print(x.grad); h.remove(); h.remove(); h2.remove()
(x*2).sum().backward(); print(x.grad)
print(type(h), h.id >= 0)
#> a tensor([2., 2.])
#> c tensor([4., 4.])
#> tensor([4., 4.])
#> c tensor([2., 2.])
#> tensor([6., 6.])
#> <class 'torch.utils.hooks.RemovableHandle'> True
## hooks_and_retained_grad_after_write
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.register_hook(lambda g: print('before', g))
y.retain_grad()
y.mul_(3)
y.register_hook(lambda g: print('after', g))
y.sum().backward(); print(y.grad, x.grad)
#> after tensor([1., 1.])
#> before tensor([3., 3.])
#> tensor([1., 1.]) tensor([6., 6.])
## retained_grad_is_after_hooks
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.retain_grad()
y.register_hook(lambda g: g*5)
y.sum().backward(); print(y.grad, x.grad, y.retains_grad, x.retains_grad)
#> tensor([5., 5.]) tensor([10., 10.]) True False
## node_hooks_and_prehooks
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
fn = y.grad_fn
h = fn.register_hook(lambda gi, go: print('post', gi, go))
h = fn.register_prehook(lambda go: print('pre', go))
h = fn.register_prehook(lambda go: (go[0]*3,))
y.sum().backward(); print(x.grad)
#> pre (tensor([1., 1.]),)
#> post (tensor([6., 6.]), None) (tensor([3., 3.]),)
#> tensor([6., 6.])
## node_hook_replaces_gradients
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
fn = y.grad_fn
h = fn.register_hook(lambda gi, go: (gi[0]*2, gi[1]))
y.sum().backward(); print(x.grad)
#> tensor([4., 4.])
## node_hook_returns_all_gradients
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
h = y.grad_fn.register_hook(lambda gi, go: (gi[0]*2,))
y.sum().backward(); print(x.grad)
#> ! RuntimeError: hook '<lambda>' has returned an incorrect number of values (got 1, but expected 2)
## accumulator_hooks_in_order
x = torch.tensor([1.,2.], requires_grad=True)
acc = (x*2).grad_fn.next_functions[0][0]
print(acc.variable is x)
acc.register_hook(lambda gi, go: print('acc', gi, go, x.grad))
acc.register_prehook(lambda go: print('accpre', go))
x.register_post_accumulate_grad_hook(lambda t: print('pa', t.grad))
x.register_hook(lambda g: print('tensor', g))
(x*2).sum().backward()
#> True
#> tensor tensor([2., 2.])
#> accpre (tensor([2., 2.]),)
#> pa tensor([2., 2.])
#> acc () (tensor([2., 2.]),) tensor([2., 2.])
## post_accumulate_hook
x = torch.tensor([1.,2.], requires_grad=True)
h = x.register_post_accumulate_grad_hook(lambda t: print('pa', t.grad))
(x*2).sum().backward(); h.remove(); (x*2).sum().backward(); print(x.grad)
(x*2).register_post_accumulate_grad_hook(lambda t: 1)
#> pa tensor([2., 2.])
#> tensor([4., 4.])
#> ! RuntimeError: post accumulate grad hooks cannot be registered on non-leaf tensors
## post_accumulate_wants_grad
torch.ones(2).register_post_accumulate_grad_hook(lambda t: 1)
#> ! RuntimeError: cannot register a hook on a tensor that doesn't require gradient
## hook_wants_grad
torch.ones(2).register_hook(lambda t: 1)
#> ! RuntimeError: cannot register a hook on a tensor that doesn't require gradient
## retain_grad_wants_grad
torch.ones(2).retain_grad()
#> ! RuntimeError: can't retain_grad on Tensor that has requires_grad=False
## retain_grad_of_a_leaf
x = torch.tensor([1.,2.], requires_grad=True); x.retain_grad(); print(x.retains_grad)
print(torch.ones(2).retains_grad)
#> False
#> False
## hooks_run_in_grad_too
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.register_hook(lambda g: print('y', g)); x.register_hook(lambda g: print('x', g))
print(torch.autograd.grad(y.sum(), [y, x]))
#> y tensor([1., 1.])
#> x tensor([2., 2.])
#> (tensor([1., 1.]), tensor([2., 2.]))
## grad_is_taken_before_hooks
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.register_hook(lambda g: g*7)
print(torch.autograd.grad(y.sum(), [y, x]))
#> (tensor([1., 1.]), tensor([14., 14.]))
## retain_grad_in_grad
x = torch.tensor([1.,2.], requires_grad=True)
y = x*2
y.retain_grad()
print(torch.autograd.grad(y.sum(), [x]), y.grad)
#> (tensor([2., 2.]),) tensor([1., 1.])
## hook_errors_come_through
x = torch.tensor([1.,2.], requires_grad=True)
def bad(g): raise ValueError('oops')
x.register_hook(bad)
(x*2).sum().backward()
#> ! ValueError: oops
## hooks_have_the_mode_of_the_run
x = torch.tensor([1.,2.], requires_grad=True)
x.register_hook(lambda g: print(torch.is_grad_enabled(), g.requires_grad))
(x*2).sum().backward()
torch.autograd.grad((x*x).sum(), x, create_graph=True)
print(torch.is_grad_enabled())
#> False False
#> True True
#> True
## backward_inputs
x = torch.tensor([1.,2.], requires_grad=True); w = torch.tensor([1.,2.], requires_grad=True)
(x*w).sum().backward(inputs=[x]); print(x.grad, w.grad)
(x*w).sum().backward(inputs=x); print(x.grad)
y = x*w
y.sum().backward(inputs=[y]); print(y.grad)
#> tensor([1., 2.]) None
#> tensor([2., 4.])
#> tensor([1., 1.])
## backward_empty_inputs
x = torch.tensor([1.,2.], requires_grad=True)
(x*x).sum().backward(inputs=[])
#> ! RuntimeError: `inputs` argument to `backward()` cannot be empty.
## backward_inputs_want_grad
x = torch.tensor([1.,2.], requires_grad=True); w = torch.ones(2)
(x*x).sum().backward(inputs=[w])
#> ! RuntimeError: can't retain_grad on Tensor that has requires_grad=False
## backward_wants_grad
x = torch.tensor([1.,2.], requires_grad=True)
torch.ones(2).sum().backward()
#> ! RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
## backward_wants_scalars
x = torch.tensor([1.,2.], requires_grad=True)
(x*x).backward()
#> ! RuntimeError: grad can be implicitly created only for scalar outputs
## backward_gradient_shape
x = torch.tensor([1.,2.], requires_grad=True)
(x*x).backward(torch.ones(3))
#> ! RuntimeError: Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a shape of torch.Size([2]).
## backward_gradient_type
x = torch.tensor([1.,2.], requires_grad=True)
(x*x).backward([1., 2.])
#> ! TypeError: gradients can be either Tensors or None, but got float
## backward_gradient_dtype_is_cast
x = torch.tensor([1.,2.], requires_grad=True)
(x*x).backward(torch.ones(2, dtype=torch.float64)); print(x.grad)
#> tensor([2., 4.])
## backward_create_graph
x = torch.tensor([1.,2.], requires_grad=True)
y = (x*x).sum()
y.backward(create_graph=True); print(x.grad)
#> tensor([2., 4.], grad_fn=<CopyBackwards>)
## backward_of_several
x = torch.tensor([1.,2.], requires_grad=True)
torch.autograd.backward([(x*x).sum(), x.sum()]); print(x.grad)
torch.autograd.backward([x*x, x], [torch.ones(2), None]);
#> tensor([3., 5.])
#> ! RuntimeError: grad can be implicitly created only for scalar outputs
## backward_of_several_counts
x = torch.tensor([1.,2.], requires_grad=True)
torch.autograd.backward([x*x, x], [torch.ones(2)]);
#> ! RuntimeError: got 2 tensors and 1 gradients
## grad_wants_scalars
x = torch.tensor([1.,2.], requires_grad=True)
torch.autograd.grad(x*x, x)
#> ! RuntimeError: grad can be implicitly created only for scalar outputs
## grad_unused
x = torch.tensor([1.,2.], requires_grad=True); w = torch.ones(2, requires_grad=True)
print(torch.autograd.grad((x*x).sum(), [x, w], allow_unused=True))
print(torch.autograd.grad((x*x).sum(), [x, w], materialize_grads=True))
torch.autograd.grad((x*x).sum(), [x, w])
#> (tensor([2., 4.]), None)
#> (tensor([2., 4.]), tensor([0., 0.]))
#> ! RuntimeError: The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if this
## grad_wants_requires_grad
x = torch.tensor([1.,2.], requires_grad=True); w = torch.ones(2)
torch.autograd.grad((x*x).sum(), [x, w])
#> ! RuntimeError: One of the differentiated Tensors does not require grad
## grad_batched
x = torch.tensor([1.,2.], requires_grad=True)
print(torch.autograd.grad(x*x, x, torch.eye(2), is_grads_batched=True))
print(torch.autograd.grad((x*x, x.sum()), x, (torch.eye(2), torch.tensor([1.,2.])), is_grads_batched=True))
#> (tensor([[2., 0.],
#>         [0., 4.]]),)
#> (tensor([[3., 1.],
#>         [2., 6.]]),)
## grad_batched_shapes
x = torch.tensor([1.,2.], requires_grad=True)
print(torch.autograd.grad(x*x, x, torch.ones(3), is_grads_batched=True))
#> ! RuntimeError: If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The s
## backward_twice
x = torch.tensor([1.,2.], requires_grad=True)
y = x.sum()
y.backward(); y.backward(); print(x.grad)
y = (x*x).sum(); y.backward(retain_graph=True); y.backward(); print(x.grad)
y.backward()
#> tensor([2., 2.])
#> tensor([ 6., 10.])
#> ! RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already b
## grad_of_nothing
x = torch.tensor([1.,2.], requires_grad=True)
print(torch.autograd.grad([], [x]))
#> ! RuntimeError: The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True if this
## grad_wants_inputs
x = torch.tensor([1.,2.], requires_grad=True)
print(torch.autograd.grad((x*x).sum(), []))
#> ! RuntimeError: `inputs` argument to `grad()` cannot be empty.
## grad_of_itself
x = torch.tensor(3., requires_grad=True)
print(torch.autograd.grad(x, x), torch.autograd.grad(x*2, x, only_inputs=True))
x.backward(); print(x.grad); x.backward(torch.tensor(2.)); print(x.grad)
#> (tensor(1.),) (tensor(2.),)
#> tensor(1.)
#> tensor(3.)
## grad_of_a_dict
x = torch.tensor([1.,2.], requires_grad=True);
print(torch.autograd.grad({'a': x*1}, x))
#> ! AssertionError: Expected output to be a torch.Tensor
## backward_of_complex
x = torch.tensor([1+2j,2.], requires_grad=True);
y = (x*x).sum(); y.backward()
#> ! RuntimeError: grad can be implicitly created only for real scalar outputs but got torch.complex64
## saved_hooks_unpack_to_tensors
a = torch.ones(2, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda x: 3, lambda x: x):
    y = a*a
y.sum().backward()
#> ! TypeError: Output of saved tensor unpack_hook expected to be a Tensor but got result of type int
## saved_hooks_may_not_write
a = torch.ones(2, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x):
    y = a*a
y.sum().backward()
#> ! RuntimeError: A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be mod
## saved_hooks_disabled
a = torch.ones(2, requires_grad=True)
with torch.autograd.graph.disable_saved_tensors_hooks("no way"):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x):
        y = a*a
#> ! RuntimeError: no way
## save_on_cpu
a = torch.ones(2, requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    y = a*a
y.sum().backward(); print(a.grad)
#> tensor([2., 2.])
## saved_hooks_nest
a = torch.ones(2, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda x: (print('1'), x)[1], lambda x: x):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (print('2'), x)[1], lambda x: x):
        y = a*a
    b = a.exp()
a.exp()
#> 2
#> 2
#> 1
## multi_grad_hooks
a = torch.ones(2, requires_grad=True); b = torch.ones(2, requires_grad=True)
def f(gs): print('multi', gs)
h = torch.autograd.graph.register_multi_grad_hook([a, b], f)
(a*b*2).sum().backward()
h.remove(); (a*b*2).sum().backward()
h = torch.autograd.graph.register_multi_grad_hook([a, b], lambda g: print('any', g), mode='any')
(a*b*2).sum().backward()
(a*2).sum().backward()
#> multi [tensor([2., 2.]), tensor([2., 2.])]
#> any tensor([2., 2.])
#> any tensor([2., 2.])
## mutation_on_saved_tensors
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    a = torch.ones(2, 3, requires_grad=True)
    b = a.clone()
    out = (b**2).sum()
    b.sin_()
    out.backward(); print(a.grad)
#> tensor([[2., 2., 2.],
#>         [2., 2., 2.]])
## gradient_edges
a = torch.ones(2, requires_grad=True)
e = torch.autograd.graph.get_gradient_edge(a*2); print(e.output_nr, e.node)
print(torch.autograd.graph.get_gradient_edge(a))
y = a*2; z = y*3
print(torch.autograd.grad(z.sum(), torch.autograd.graph.get_gradient_edge(y)))
torch.autograd.graph.increment_version(y); print(y._version)
torch.autograd.graph.get_gradient_edge(torch.ones(2))
#> 0 <MulBackward0 object at 0x>
#> GradientEdge(node=<AccumulateGrad object at 0x>, output_nr=0, ownership_token=None)
#> (tensor([3., 3.]),)
#> 1
#> ! RuntimeError: It is not possible to get the gradient edge for a Tensor that does not require gradients
## anomaly_mode_is_switched
print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()); torch.autograd.set_detect_anomaly(True); print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
torch.autograd.set_detect_anomaly(False)
with torch.autograd.set_detect_anomaly(True, check_nan=False): print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
#> False True
#> True True
#> True False
#> False True
## dual_tensors
import torch.autograd.forward_ad as fwAD
x = torch.tensor([1.,2.]); t = torch.ones(2)
with fwAD.dual_level():
    d = fwAD.make_dual(x, t); print(type(fwAD.unpack_dual(d)).__name__, fwAD.unpack_dual(d))
    y = d.sin()*d
    print(fwAD.unpack_dual(y)); print(fwAD.unpack_dual(torch.ones(2)))
    print(fwAD.unpack_dual(d.detach()).tangent)
print(fwAD.unpack_dual(y))
#> UnpackedDualTensor UnpackedDualTensor(primal=tensor([1., 2.]), tangent=tensor([1., 1.]))
#> UnpackedDualTensor(primal=tensor([0.8415, 1.8186]), tangent=tensor([1.3818, 0.0770]))
#> UnpackedDualTensor(primal=tensor([1., 1.]), tangent=None)
#> None
#> UnpackedDualTensor(primal=tensor([0.8415, 1.8186]), tangent=None)
## dual_wants_a_level
import torch.autograd.forward_ad as fwAD
fwAD.make_dual(torch.ones(2), torch.ones(2))
#> ! RuntimeError: Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.
## dual_wants_shapes
import torch.autograd.forward_ad as fwAD
with fwAD.dual_level(): fwAD.make_dual(torch.ones(2), torch.ones(3))
#> ! RuntimeError: Trying to set a forward gradient that has a different size than that of the original Tensor, this is not suppo
## dual_levels_do_not_nest
import torch.autograd.forward_ad as fwAD
with fwAD.dual_level():
    with fwAD.dual_level(): pass
#> ! RuntimeError: Nested forward mode AD is not supported at the moment
## dual_uses_jvp
import torch.autograd.forward_ad as fwAD
class F(torch.autograd.Function):
    @staticmethod
    def forward(x, n): return x**n
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(inputs[0]); ctx.n = inputs[1]; ctx.save_for_backward(inputs[0])
    @staticmethod
    def backward(ctx, g): x, = ctx.saved_tensors; return g*ctx.n*x**(ctx.n-1), None
    @staticmethod
    def jvp(ctx, t, _): x, = ctx.saved_tensors; return 100*t*x
x = torch.tensor([1.,2.], requires_grad=True)
with fwAD.dual_level():
    print(fwAD.unpack_dual(F.apply(fwAD.make_dual(x, torch.ones(2)), 3)).tangent)
F.apply(x, 3).sum().backward(); print(x.grad)
#> tensor([100., 200.], grad_fn=<MulBackward0>)
#> tensor([ 3., 12.])
## functional_products
from torch.autograd.functional import *
x = torch.tensor([1.,2.]); y = torch.tensor([3.,4.])
print(jacobian(torch.sin, x)); print(jacobian(lambda x, y: (x*y, x.sum()), (x, y)))
print(hessian(lambda x: (x**3).sum(), x)); print(hessian(lambda x, y: (x**2*y).sum(), (x, y)))
print(vjp(lambda x: x**2, x, torch.ones(2))); print(jvp(lambda x: x**2, x, torch.ones(2)))
print(vhp(lambda x: (x**3).sum(), x, torch.ones(2))); print(hvp(lambda x: (x**3).sum(), x, torch.ones(2)))
print(vjp(lambda x: (x**2).sum(), x)); print(jvp(lambda x, y: (x*y, y), (x, y), (torch.ones(2), torch.ones(2))))
print(jacobian(torch.sin, x, vectorize=True), jacobian(torch.sin, x, vectorize=True, strategy='forward-mode'))
#> tensor([[ 0.5403, -0.0000],
#>         [ 0.0000, -0.4161]])
#> ((tensor([[3., 0.],
#>         [0., 4.]]), tensor([[1., 0.],
#>         [0., 2.]])), (tensor([1., 1.]), tensor([0., 0.])))
#> tensor([[ 6.,  0.],
#>         [ 0., 12.]])
#> ((tensor([[6., 0.],
#>         [0., 8.]]), tensor([[2., 0.],
#>         [0., 4.]])), (tensor([[2., 0.],
#>         [0., 4.]]), tensor([[0., 0.],
#>         [0., 0.]])))
#> (tensor([1., 4.]), tensor([2., 4.]))
#> (tensor([1., 4.]), tensor([2., 4.]))
#> (tensor(9.), tensor([ 6., 12.]))
#> (tensor(9.), tensor([ 6., 12.]))
#> (tensor(5.), tensor([2., 4.]))
#> ((tensor([3., 8.]), tensor([3., 4.])), (tensor([4., 6.]), tensor([1., 1.])))
#> tensor([[ 0.5403, -0.0000],
#>         [ 0.0000, -0.4161]]) tensor([[ 0.5403,  0.0000],
#>         [-0.0000, -0.4161]])
## functional_create_graph
from torch.autograd.functional import *
x = torch.tensor([1.,2.], requires_grad=True)
j = jacobian(lambda x: x**3, x, create_graph=True); print(j); print(torch.autograd.grad(j.sum(), x))
j = jacobian(lambda x: x**3, x); print(j.requires_grad)
#> tensor([[ 3.,  0.],
#>         [ 0., 12.]], grad_fn=<ViewBackward0>)
#> (tensor([ 6., 12.]),)
#> False
## functional_strict
from torch.autograd.functional import *
jacobian(lambda x: torch.ones(2), torch.ones(2), strict=True)
#> ! RuntimeError: Output 0 of the user-provided function does not require gradients. The outputs must be computed in a different
## functional_constant_outputs
from torch.autograd.functional import *
print(jacobian(lambda x: torch.ones(2), torch.ones(2)), jacobian(lambda x: x[0], torch.ones(2)))
jacobian(lambda x: 3, torch.ones(2))
#> tensor([[0., 0.],
#>         [0., 0.]]) tensor([1., 0.])
#> ! TypeError: The outputs of the user-provided function given to jacobian must be either a Tensor or a tuple of Tensors but
## functional_vjp_wants_v
from torch.autograd.functional import *
vjp(lambda x: x, torch.ones(2))
#> ! RuntimeError: The vector v can only be None if the user-provided function returns a single Tensor with a single element.
## functional_hessian_wants_scalar
from torch.autograd.functional import *
hessian(lambda x: x, torch.ones(2))
#> ! RuntimeError: The Tensor returned by the function given to hessian should contain a single element
## functional_v_shape
from torch.autograd.functional import *
jvp(lambda x: x, torch.ones(2), torch.ones(3))
#> ! RuntimeError: v has invalid size: should be torch.Size([2]) but got torch.Size([3]).
## gradcheck_passes
from torch.autograd import gradcheck, gradgradcheck
x = torch.randn(3, dtype=torch.double, requires_grad=True)
print(gradcheck(torch.sin, x), gradcheck(lambda x, y: (x*y, x+y), (x, x)), gradgradcheck(torch.sin, x))
#> True True True
## gradcheck_finds_wrong_backward
from torch.autograd import gradcheck
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x**2
    @staticmethod
    def backward(ctx, g): return g*3
x = torch.tensor([1.,2.], dtype=torch.double, requires_grad=True)
print(gradcheck(F.apply, x, raise_exception=False))
try: gradcheck(F.apply, x)
except Exception as e: print(type(e), type(e).__mro__); print(e)
#> False
#> <class 'torch.autograd.gradcheck.GradcheckError'> (<class 'torch.autograd.gradcheck.GradcheckError'>, <class 'RuntimeError'>, <class 'Exception'>, <class 'BaseException'>, <class 'object'>)
#> Jacobian mismatch for output 0 with respect to input 0,
#> numerical:tensor([[2.0000, 0.0000],
#>         [0.0000, 4.0000]], dtype=torch.float64)
#> analytical:tensor([[3., 0.],
#>         [0., 3.]], dtype=torch.float64)
## gradcheck_wants_grad
from torch.autograd import gradcheck
gradcheck(torch.sin, torch.ones(2))
#> ! ValueError: gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.
## gradcheck_complex
from torch.autograd import gradcheck
x = torch.tensor([1+2j,2.], dtype=torch.cdouble, requires_grad=True)
print(gradcheck(lambda x: x*x, x), gradcheck(lambda x: x.abs(), x), gradcheck(lambda x: x.sin(), (x,), check_forward_ad=True, fast_mode=True))
#> True True True
## gradcheck_detached
from torch.autograd import gradcheck
x = torch.ones(2, dtype=torch.double, requires_grad=True)
gradcheck(lambda x: x.detach(), x)
#> ! GradcheckError: Numerical gradient for function expected to be zero
## checkpoint_without_reentry
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
x = torch.tensor([1.,2.], requires_grad=True); w = torch.tensor([3.,4.], requires_grad=True)
def f(x, k=1): print('run', torch.is_grad_enabled()); return (x*w).sin()*k
y = checkpoint(f, x, use_reentrant=False); print(y); y.sum().backward(); print(x.grad, w.grad)
y = checkpoint(f, x, use_reentrant=False, k=2); y.sum().backward(); print(x.grad, w.grad)
#> run True
#> tensor([0.1411, 0.9894], grad_fn=<MulBackward0>)
#> run True
#> tensor([-2.9700, -0.5820]) tensor([-0.9900, -0.2910])
#> run True
#> run True
#> tensor([-8.9099, -1.7460]) tensor([-2.9700, -0.8730])
## checkpoint_with_reentry
from torch.utils.checkpoint import checkpoint
x = torch.tensor([1.,2.], requires_grad=True); w = torch.tensor([3.,4.], requires_grad=True)
def f(x): print('run', torch.is_grad_enabled()); return (x*w).sin()
y = checkpoint(f, x, use_reentrant=True); print(y); y.sum().backward(); print(x.grad, w.grad)
#> run False
#> tensor([0.1411, 0.9894], grad_fn=<CheckpointFunctionBackward>)
#> run True
#> tensor([-2.9700, -0.5820]) tensor([-0.9900, -0.2910])
## checkpoint_random_and_double_backward
from torch.utils.checkpoint import checkpoint
x = torch.tensor([1.,2.], requires_grad=True)
def f(x): return x * torch.rand(2)
torch.manual_seed(0)
y = checkpoint(f, x, use_reentrant=False); y.sum().backward(); print(y/x, x.grad)
g, = torch.autograd.grad(checkpoint(lambda x: x**3, x, use_reentrant=False).sum(), x, create_graph=True); print(torch.autograd.grad(g.sum(), x))
#> tensor([0.4963, 0.7682], grad_fn=<DivBackward0>) tensor([0.4963, 0.7682])
#> (tensor([ 6., 12.]),)
## modes_decorate_in_all_forms
@torch.inference_mode
def f(): return torch.is_inference_mode_enabled()
@torch.inference_mode()
def g(): return torch.is_inference_mode_enabled()
@torch.inference_mode(mode=False)
def h(): return torch.is_inference_mode_enabled()
print(f(), g(), h())
#> True True False
## modes_hold_in_generators_only_while_they_run
@torch.no_grad()
def gen():
    x = yield torch.is_grad_enabled()
    try:
        y = yield x
    except ValueError: yield torch.is_grad_enabled()
    return 5
g = gen(); print(next(g), torch.is_grad_enabled(), g.send(3)); print(g.throw(ValueError));
try: next(g)
except StopIteration as e: print(e.value, torch.is_grad_enabled())
#> False True 3
#> False
#> 5 True
## modes_decorate_classes
@torch.no_grad()
class A:
    def __init__(self): print(torch.is_grad_enabled())
A()
#> False
## set_grad_enabled_in_all_forms
@torch.set_grad_enabled(False)
def f(): return torch.is_grad_enabled()
print(f(), torch.is_grad_enabled())
torch.set_grad_enabled(False); print(torch.is_grad_enabled()); torch.set_grad_enabled(True)
with torch.set_grad_enabled(False) as c: print(torch.is_grad_enabled())
print(torch.is_grad_enabled())
print(torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
#> False True
#> False
#> False
#> True
#> <class 'torch.autograd.grad_mode.no_grad'> <class 'torch.autograd.grad_mode.enable_grad'> <class 'torch.autograd.grad_mode.set_grad_enabled'> <class 'torch.autograd.grad_mode.inference_mode'>
## leaves_of_no_grad
with torch.no_grad():
    x = torch.ones(2, requires_grad=True); y = x*2
    print(x, y, y.requires_grad, x.is_leaf, y.is_leaf)
    x.add_(1); print(x._version)
    with torch.enable_grad(): print((x*2).requires_grad)
    def f():
        return torch.is_grad_enabled()
    print(f())
x.add_(1)
#> tensor([1., 1.], requires_grad=True) tensor([2., 2.]) False True True
#> 1
#> True
#> False
#> ! RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.
## nodes_can_be_called
x = torch.ones(2, requires_grad=True)
y = x * 2
print(y.grad_fn(torch.ones(2)))
#> (tensor([2., 2.]), None)
## saved_values_are_there_until_freed
x = torch.ones(2, requires_grad=True); y = x.exp(); y.backward(torch.ones(2)); print(y.grad_fn._saved_result)
#> ! RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already b
## unbind_and_stack_have_one_edge_each
x = torch.ones(2, requires_grad=True)*1
a = x.unbind(0); b = torch.stack(a); b.sum().backward(); print(b.grad_fn.next_functions)
#> ((<UnbindBackward0 object at 0x>, 0), (<UnbindBackward0 object at 0x>, 1))
## threads_have_their_own_mode
import threading
x = torch.ones(2, requires_grad=True); res = []
def f():
    res.append(torch.is_grad_enabled()); (x*2).sum().backward()
with torch.no_grad():
    t = threading.Thread(target=f); t.start(); t.join()
print(res, x.grad)
#> [True] tensor([2., 2.])
## function_runs_backward_inside_backward
x = torch.ones(2, requires_grad=True)
class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach().requires_grad_()
        with torch.enable_grad(): ctx.y = (ctx.x**2).sum()
        return ctx.y.detach()
    @staticmethod
    def backward(ctx, g):
        ctx.y.backward(g); return ctx.x.grad
Outer.apply(x).backward(); print(x.grad)
#> tensor([2., 2.])
## repeated_use_adds_up
x = torch.tensor([3.], requires_grad=True); y = x
for _ in range(5): y = y * y / y
y.backward(); print(x.grad)
#> tensor([1.])
## gradients_of_modules
x = torch.randn(3, requires_grad=True); l = x.norm(); l.backward(); print((x.grad*x).sum().allclose(l.detach()))
m = torch.nn.Linear(2, 1); opt = torch.optim.SGD(m.parameters(), lr=.1); opt.zero_grad(); m(torch.ones(1,2)).sum().backward(); opt.step(); print(m.weight.grad)
#> True
#> tensor([[1., 1.]])
## dropout_in_the_graph
torch.manual_seed(0); x = torch.randn(2, requires_grad=True); y = torch.nn.functional.dropout(x, 0.5); print(y); y.sum().backward(); print(x.grad)
#> tensor([3.0820, -0.0000], grad_fn=<MulBackward0>)
#> tensor([2., 0.])
## graph_outlives_names
x = torch.ones(3, requires_grad=True); y = x*2; del x; y.sum().backward(); print(y.grad_fn.next_functions[0][0])
#> <AccumulateGrad object at 0x>
## nonleaf_grad_is_none
x = torch.tensor(1.0, requires_grad=True); print(x.grad, x.is_leaf, (x+1).is_leaf); z = (x + 1); z.grad
#> None True False
## kinks_have_pytorchs_subgradients
x = torch.zeros(3, requires_grad=True)
y = torch.where(x > 0, x, torch.zeros_like(x)); y.sum().backward(); print(x.grad)
x.grad.zero_(); (x.abs()).sum().backward(); print(x.grad); torch.sqrt(x+1).sum().backward(); print(x.grad); x.grad = None; x.clamp(min=0).sum().backward(); print(x.grad)
#> tensor([0., 0., 0.])
#> tensor([0., 0., 0.])
#> tensor([0.5000, 0.5000, 0.5000])
#> tensor([1., 1., 1.])
## variable_is_tensor
print(torch.autograd.Variable(torch.ones(2), requires_grad=True)); v = torch.autograd.Variable(torch.ones(2)); print(v.requires_grad, type(v))
#> tensor([1., 1.], requires_grad=True)
#> False <class 'torch.Tensor'>
## products_with_hessians
x = torch.tensor([1., 2.], requires_grad=True); print(torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2))); torch.autograd.set_grad_enabled(True) ; print(torch.autograd.grad_mode.no_grad is torch.no_grad)
#> (tensor(9.), tensor([ 6., 12.]))
#> True
## training_by_hand
w = torch.ones(2, requires_grad=True); opt_steps = []
for i in range(3):
    loss = ((w * 3 - 1)**2).sum(); loss.backward()
    with torch.no_grad(): w -= 0.1 * w.grad; w.grad = None
    opt_steps.append(loss.item())
print(opt_steps, w)
#> [8.0, 5.120000839233398, 3.2767999172210693] tensor([-0.0080, -0.0080], requires_grad=True)
"""  # programs

CASES = torch_programs.parse(PROGRAMS)


@pytest.mark.parametrize("name", CASES)
def test_prints_what_pytorch_prints(name):
    source, expected = CASES[name]
    assert torch_programs.run(source, torch) == expected


def test_expected_output_is_pytorchs():
    real = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    if not real.__version__.startswith("2.13"):
        pytest.skip("the programs were run with PyTorch 2.13")
    assert torch_programs.oracle(PROGRAMS) == {name: expected for name, (_, expected) in CASES.items()}


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x**3
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return g * 3 * x**2


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_functions_pass_gradcheck():
    x = leaf(0.5, -1.5)
    assert gradcheck(Cube.apply, x, check_forward_ad=True, check_batched_grad=True) and gradgradcheck(Cube.apply, x)


def test_function_runs_on_the_batch_and_with_its_own_rule_for_it():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 3 and in_dims == (0,)
            return Twice.apply(x) + 1, 0

    x = torch.arange(3.0)
    assert torch.vmap(Twice.apply)(x).tolist() == [1.0, 3.0, 5.0]
    assert torch.vmap(torch.func.grad(Twice.apply))(x).tolist() == [2.0, 2.0, 2.0]
    assert torch.vmap(torch.func.grad(Cube.apply))(x).tolist() == [0.0, 3.0, 12.0]


def test_function_with_only_a_jvp_is_transposed():
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x.sin()

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * x.cos()

    x = leaf(0.5, 1.0)
    Sine.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]))


def test_once_differentiable_raises_at_the_second_derivative():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    x, v = leaf(1.0), leaf(1.0)
    (g,) = torch.autograd.grad(Once.apply(x), x, v, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


def test_gradients_of_several_outputs_of_one_function():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    x = leaf(1.0, 2.0)
    a, b = Two.apply(x)
    (a * b).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [12.0, 24.0])


def test_anomaly_names_the_line_and_the_node():
    x = leaf(0.0, 1.0)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        with (
            torch.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"),
        ):
            y = x.sqrt() * 0  # the line to be named
            y.sum().backward()
    text = str(caught[-1].message)
    assert "Error detected in SqrtBackward0" in text and "y = x.sqrt() * 0" in text and not torch.is_anomaly_enabled()


def test_looking_on_is_over_afterwards():
    from functrace.torch._engine import Node

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert "__setattr__" in Node.__dict__
        with torch.autograd.set_detect_anomaly(True):
            pass
    with pytest.raises(ValueError), torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        raise ValueError
    assert "__setattr__" not in Node.__dict__


def test_saved_tensors_may_be_kept_elsewhere():
    store = []

    def pack(t):
        store.append(t.numpy().copy())
        return len(store) - 1

    def program(x, w):
        y = torch.sigmoid(x @ w)
        y = (y * y).cumsum(0)[1:].sin()
        y.mul_(2)
        return (Cube.apply(y) * torch.linspace(0.0, 1.0, 2, dtype=torch.float64)).sum()

    x, w = leaf(0.1, 0.2, 0.3), torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(program(x, w), (x, w))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda k: torch.from_numpy(store[k])):
        value = program(x, w)
    hooked = torch.autograd.grad(value, (x, w), create_graph=True)
    assert len(store) >= 8
    for a, b in zip(plain, hooked):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12)
    second = torch.autograd.grad(hooked[1].sum(), x)
    (expected,) = torch.autograd.grad(torch.autograd.grad(program(x, w), w, create_graph=True)[0].sum(), x)
    np.testing.assert_allclose(second[0].numpy(), expected.numpy(), rtol=1e-12)


def test_checkpoint_runs_again_and_keeps_nothing():
    runs = []

    def f(x, w):
        runs.append(torch.is_grad_enabled())
        return torch.tanh(x * w) * w

    x, w = leaf(0.3, 0.6), leaf(1.0, 2.0)
    expected = torch.autograd.grad(f(x, w).sum(), (x, w))
    runs.clear()
    y = checkpoint(f, x, w, use_reentrant=False)
    assert "saved" not in y.grad_fn.__dict__
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert runs == [True, True, True]
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected[0].numpy())
    np.testing.assert_allclose(w.grad.numpy(), 2 * expected[1].numpy())
    x.grad = None
    chain = checkpoint_sequential([torch.sin, torch.cos, torch.exp], 2, x, use_reentrant=False)
    chain.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), torch.autograd.grad(torch.exp(torch.cos(torch.sin(x))).sum(), x)[0].numpy())


def test_checkpoint_notices_another_second_run():
    flags = [True]

    def f(x):
        return x.exp() * x if flags and flags.pop() else x.exp()

    y = checkpoint(f, leaf(1.0), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()


def test_forward_mode_agrees_with_reverse_mode():
    def f(x):
        y = x.clone()
        y[0] = x[1] * x[2]
        a, b = y.split([1, 2])
        return torch.cat([a.exp(), (b @ b).reshape(1), torch.softmax(x, 0)])

    x, t = torch.tensor([0.3, -0.2, 0.7], dtype=torch.float64), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent
    expected = torch.autograd.functional.jacobian(f, x) @ t
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-12)


def test_forward_mode_does_not_lose_tangents_silently():
    with forward_ad.dual_level():
        d = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="tangents follow the recorded graph"), torch.no_grad():
            d * 2
    with torch.no_grad(), forward_ad.dual_level():
        d = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert forward_ad.unpack_dual(d * 2).tangent.tolist() == [2.0, 2.0]


def test_modes_hold_in_coroutines():
    @torch.no_grad()
    async def off():
        await asyncio.sleep(0)
        return torch.is_grad_enabled()

    async def main():
        return await asyncio.gather(off(), off()), torch.is_grad_enabled()

    assert asyncio.run(main()) == ([False, False], True)


def test_create_graph_leaks_nothing_with_the_collector_off():
    w = leaf(1.0, 2.0)

    def step():
        (Cube.apply(w) * w).sum().backward(create_graph=True)
        w.grad.sum().backward()

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            w.grad = None
            step()
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


def test_gradient_of_a_leaf_that_is_gone_is_dropped():
    def value():
        x = leaf(1.0, 2.0)
        return (x * x).sum()

    value().backward()


def test_gradgradcheck_finds_a_wrong_second_derivative():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.detach()

    x = leaf(1.0, 2.0)
    assert gradcheck(Wrong.apply, x)
    assert not gradgradcheck(Wrong.apply, x, raise_exception=False)
