# Histories: in-place writes, views, versions, freed graphs, hooks, modes, and the texts of errors.
import torch
def t(f,*a):
    try: r=f(*a); print(repr(r))
    except Exception as e: print(type(e).__name__, str(e))
x=torch.tensor([1.,2.,3.],requires_grad=True)
print("-- version errors")
def f1():
    y=x.exp(); y.add_(1); y.sum().backward()
t(f1)
def f2():
    w=torch.ones(3,requires_grad=True)*2; y=x*w; w.add_(1); y.sum().backward()
t(f2)
def f3():
    b=torch.ones(2,3); y=(x*b[0]); b[0,1]=5; y.sum().backward()
t(f3)
def f4():
    y=x*2; y[0]=x[1]*3; print(y, y.grad_fn, y.grad_fn.next_functions); v=y[1]; print(v.grad_fn); y.mul_(2); print(v.grad_fn, y); v.mul_(3); print(v.grad_fn, y.grad_fn, y, v); y.sum().backward(); print(x.grad)
t(f4)
def f5():
    v=x[0]; v.mul_(2)
t(f5)
def f6():
    y=x*1; a,b,c=y.unbind(); a.mul_(2)
t(f6)
def f7():
    y=x*1
    with torch.no_grad(): v=y[0]
    v.mul_(2)
t(f7)
def f8():
    x.zero_()
t(f8)
def f9():
    with torch.no_grad(): x[0]=1; x.add_(0); print(x._version, x)
t(f9)
def f10():
    y=x*2; y.backward(torch.ones(2))
t(f10)
def f11():
    y=x*2; y.backward(1.)
t(f11)
def f12(): 
    y=x*2; torch.autograd.backward([y],[torch.ones(3),torch.ones(3)])
t(f12)
def f13():
    y=x*2; z=torch.ones(3,requires_grad=True); print(torch.autograd.grad(y.sum(),[z],allow_unused=True)); torch.autograd.grad((x*2).sum(),[z])
t(f13)
def f14(): torch.autograd.grad((x*2).sum(),[torch.ones(2)])
t(f14)
def f15():
    y=(x*2); g=torch.autograd.grad(y.sum(),x,create_graph=True); print(g)
    y=(x**3).sum(); g,=torch.autograd.grad(y,x,create_graph=True); print(g); h,=torch.autograd.grad(g.sum(),x,create_graph=True); print(h,h.grad_fn); k,=torch.autograd.grad(h.sum(),x); print(k)
t(f15)
def f16():
    x.grad=None; y=(x**2).sum(); y.backward(create_graph=True); print(x.grad, x.grad.grad_fn); y=(x**2).sum(); y.backward(create_graph=True); print(x.grad)
t(f16)
def f17():
    x.grad=None; y=x.sum(); y.backward(); y.backward(); print(x.grad); y=(x+1); y.sum().backward(); y=x*2; s=y.sum(); s.backward();  s.backward()
t(f17)
def f18():
    y=(2*x).mean(); y.backward(); y.backward()
t(f18)
def f19():
    y=x*2; y.retain_grad(); y.sum().backward(); print(y.grad, y.retains_grad); z=x*2; print(z.grad)
t(f19)
def f20():
    y=x*2; d=y.detach(); d.add_(1); print(y, d, y._version); y.sum().backward()
    y=x.exp(); d=y.detach(); d.zero_(); y.sum().backward()
t(f20)
def f21():
    y=x.exp(); y.data.zero_(); x.grad=None; y.sum().backward(); print(x.grad)
t(f21)
def f22():
    a=torch.zeros(3); a.add_(x); print(a, a.is_leaf, a.grad_fn.next_functions)
    a=torch.zeros(2,3); b=a[0]; b.copy_(x); print(a,b); print(a.grad_fn.next_functions,b.grad_fn.next_functions,b.requires_grad)
t(f22)
def f23():
    a=torch.zeros(2,3); a[0]=x; print(a); a[:,1]=7; print(a); a[[0,1]]=x; print(a);a[a>1]=0; print(a); a.sum().backward(); print(x.grad)
t(f23)
def f24():
    y=x*2; print((y+1).grad_fn.next_functions,(y*x).grad_fn.next_functions, y.sum().grad_fn.next_functions,(y**2).grad_fn.next_functions,(2-y).grad_fn.next_functions,(2/y).grad_fn.next_functions); print(x.grad_fn, y.grad_fn.next_functions[0][0].variable is x, y.grad_fn.name())
t(f24)
def f25():
    y=x.view(3,1); y.add_(1)
t(f25)
def f26():
    a=torch.ones(3).requires_grad_(); a.grad=torch.ones(2)
t(f26)
def f27():
    a=torch.ones(3).requires_grad_(); a.grad=1
t(f27)
def f28():
    a=torch.ones(3).requires_grad_(); a.grad=torch.ones(3,dtype=torch.float64)
t(f28)
def f29():
    a=torch.ones(3).requires_grad_(); b=a*2; b.detach_(); print(b.requires_grad,b.is_leaf); a[0].detach_()
t(f29)
def f30():
    a=torch.ones(3).expand(2,3); a.add_(1)
t(f30)
def f31():
    y=(x*2).sum(); y.backward(inputs=[x]); y2=(x*x).sum(); y2.backward(inputs=[]); 
t(f31)
def f32(): torch.autograd.backward(x*2)
t(f32)
def f33(): (x*2).sum().backward(torch.ones(1))
t(f33)
def f34(): (x*2).sum().backward(torch.tensor(1.,dtype=torch.float64)); print(x.grad.dtype)
t(f34)
def f35(): (x*2).sum().backward(torch.tensor(1j)); print(x.grad.dtype)
t(f35)
def f36():
    y=x**2; print(y.grad_fn._saved_self, y.grad_fn._saved_exponent); y.sum().backward(); y.grad_fn._saved_self
t(f36)
def f37():
    y=x*2; y.requires_grad=False
t(f37)
def f38():
    y=torch.ones(2,dtype=torch.int64); y.requires_grad=True
t(f38)
def f39():
    with torch.no_grad(): y=x*2; print(y.requires_grad, y.is_leaf,y.grad_fn)
    with torch.enable_grad(): pass
    print(torch.is_grad_enabled(), torch.set_grad_enabled(False), torch.is_grad_enabled()); torch.set_grad_enabled(True)
t(f39)
def f41():
    y=x*2; y.backward(gradient=torch.ones(3), retain_graph=True); h=x.register_hook(lambda g: print('hook',g)); print(h); y.backward(torch.ones(3)); h.remove()
t(f41)
def f42():
    a=torch.tensor([1.,2.]); a.retain_grad()
t(f42)
def f43():
    a=torch.tensor([1.,2.]); a.register_hook(print)
t(f43)
def f44():
    torch.autograd.grad(x*2,x)
t(f44)
def f45():
    torch.autograd.grad([x.sum()],[x],[torch.ones(2)])
t(f45)
def f46():
    y=x*2; y.sum().backward(); print(torch.autograd.grad(y.sum(),x))
t(f46)
def f47():
    from copy import deepcopy; print(deepcopy(x)); deepcopy(x*2)
t(f47)
def f48():
    y = x.clone(); y[0] = 3; z=y[1:]; z *= 2; print(y, z); y[1]+=x[0]; print(y); (y*y).sum().backward(); print(x.grad)
t(f48)
def f49():
    y = x.clone(); z=y.view(3,1); z[0,0]=x[1]; print(z, y); z.t()[0,1].mul_(4); print(z,y)
t(f49)
def f50():
    print(x.data_ptr()==x.detach().data_ptr(), x.T if 0 else '', x.new_zeros(2), x.new_tensor([1]), x.item() if 0 else '')
t(f50)

def f():
    y=x*1; y.mul_(y); y.sum().backward(); print(x.grad)
t(f)
def f():
    y=x*1; y.mul_(y[0]); y.sum().backward(); print(x.grad)
t(f)
def f():
    y=x*1; z=torch.ones(3,requires_grad=True)*1; y.mul_(z); print(y.grad_fn.next_functions); y.sum().backward(); print(x.grad)
t(f)
def f():
    y=x*1; y[0]=5; print(y.grad_fn.next_functions, y.grad_fn.name()); y[1]=y[0]; print(y); v=y[:2]; v[0]=9; print(v,v.grad_fn.next_functions); print((y*2).grad_fn.next_functions)
t(f)
def f():
    y=(x*2); y[y>2]=0.; print(y,y.grad_fn.next_functions); z=y[1:]; z[[0,1]]=torch.tensor([8.,9.]); print(y,z)
t(f)
def f(): x[0]=1
t(f)
def f(): y=torch.zeros(3); y[0]=torch.ones(2)
t(f)
def f(): y=torch.zeros(3); y[5]=torch.ones(2)
t(f)
def f(): y=torch.zeros(3,3); y[0]=torch.ones(1,3); print(y); y[0]=torch.ones(2,3)
t(f)
def f(): y=torch.zeros(3,dtype=torch.int64); y[0]=2.7; print(y); y[1]=torch.tensor(2.7); print(y); y[:]=torch.tensor([1.5,2,3]); print(y)
t(f)
def f(): y=torch.zeros(3); y+=torch.ones(3,dtype=torch.float64); print(y,y.dtype); y=y+1j; print(y); z=torch.zeros(3); z+=1j
t(f)
def f(): 
    y=torch.tensor([1,2]); y/=2
t(f)
def f():
    y=torch.tensor([5.,7.]); y//=2; print(y); y%=2; print(y); y**=2; print(y); y-=1; print(y)
t(f)
def f():
    y=torch.ones(2,3); print(y.sum(0).sum(), y.sum(dim=[0,1]), y.sum(0,keepdim=True), y.sum(axis=0), y.mean(1), y.std(), y.var(0), y.max(), y.max(1), y.argmax(), y.min(0)); 
    print(y.max(1).values, type(y.max(1)))
t(f)
def f():
    print(torch.ones(2).sum(dtype=torch.float64), torch.tensor([1,2]).sum(), torch.tensor([True,True]).sum(), torch.tensor([1,2]).prod(), torch.tensor([1,2]).cumsum(0), torch.tensor([1,2],dtype=torch.int32).sum().dtype)
t(f)
def f():
    print(torch.arange(3)/2, torch.arange(3)*2.5, torch.arange(3)**2, torch.arange(3).float(), torch.arange(3)//2, 7//torch.arange(1,3), 7%torch.arange(1,3), torch.arange(3)<2, 2**torch.arange(3))
t(f)
