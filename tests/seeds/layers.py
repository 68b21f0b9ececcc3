# `torch.nn.functional`, layers and first values: results and error texts.


import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
A = torch.arange(12.0).view(3, 4)
B = torch.arange(24).view(2, 3, 4)
V, I = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([3, 1, 2])
M = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
C = torch.tensor([1 + 2j, 3 - 1j])
Z = torch.tensor([True, False, True])
R = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
E, S = torch.empty(0), torch.tensor(2.5)
X4, X3, X2 = torch.randn(2, 3, 6, 6), torch.randn(2, 3, 8), torch.randn(4, 5)
Y = torch.tensor([1, 0, 4, 2])


def show(source):
    torch.manual_seed(0)
    try:
        value = eval(source)
        print(source, "->", repr(value), getattr(value, "dtype", ""))
    except Exception as error:
        print(source, "!!", type(error).__name__, error)


EXPRESSIONS = r"""
F.glu(X2)
F.softmax(X2, dim=1)[0], F.log_softmax(X2, -1)[0], F.softmin(X2, 0)[0], F.gumbel_softmax(X2, hard=True).sum(1)
F.softmax(X2)
F.normalize(X2)[0], F.cosine_similarity(X2, X2 + 1), F.pairwise_distance(X2, X2 + 1), F.layer_norm(X2, (5,))[0], F.batch_norm(X2, None, None, training=True)[0], F.group_norm(X3, 3)[0, 0], F.instance_norm(X3)[0, 0], F.local_response_norm(X4, 2).shape
F.layer_norm(X2, (4,))
F.batch_norm(torch.ones(1, 3), None, None, training=True)
F.group_norm(X3, 2)
F.linear(X2, torch.ones(2, 5)), F.linear(X2, torch.ones(2, 5), torch.ones(2))[0], F.bilinear(X2, X2, torch.ones(1, 5, 5))[0]
F.linear(X2, torch.ones(2, 4))
F.linear(X2, torch.ones(2, 5, dtype=torch.double))
F.conv2d(X4, torch.ones(4, 3, 3, 3), padding=1, stride=2).shape, F.conv1d(X3, torch.ones(2, 3, 3), dilation=2).shape, F.conv_transpose2d(X4, torch.ones(3, 2, 2, 2), stride=2).shape, F.conv2d(X4, torch.ones(3, 1, 3, 3), groups=3).shape, F.conv2d(X4[0], torch.ones(4, 3, 3, 3)).shape
F.conv2d(X4, torch.ones(4, 2, 3, 3))
F.conv2d(X4, torch.ones(4, 3, 9, 9))
F.conv2d(X4, torch.ones(4, 3, 3, 3), torch.ones(3))
F.conv2d(X4, torch.ones(4, 3, 3, 3), stride=0)
F.conv2d(X4, torch.ones(4, 3, 3, 3), padding='same', stride=2)
F.max_pool2d(X4, 2)[0, 0], F.avg_pool2d(X4, 3, stride=1, padding=1)[0, 0, 0], F.adaptive_avg_pool2d(X4, (2, 3)).shape, F.max_pool1d(X3, 2, return_indices=True)[1][0], F.lp_pool2d(X4, 2, 2).shape, F.adaptive_max_pool1d(X3, 3).shape, F.max_pool2d(X4, 3, 2, 1, ceil_mode=True).shape
F.max_pool2d(X4, 9)
F.max_pool2d(X4, 2, padding=2)
F.max_pool2d(X2, 2)
F.pad(X2, (1, 2))[0], F.pad(X2, (1, 1, 1, 1), value=3.)[0], F.pad(X3, (2, 2), 'reflect')[0, 0], F.pad(X3, (1, 1), mode='replicate')[0, 0], F.pad(X3, (1, 1), 'circular')[0, 0]
F.pad(X2, (1,))
F.pad(X3, (9, 9), 'reflect')
F.interpolate(X4, scale_factor=2).shape, F.interpolate(X4, size=(3, 3), mode='bilinear', align_corners=False)[0, 0], F.interpolate(X3, 4, mode='linear').shape, F.pixel_shuffle(torch.randn(1, 4, 2, 2), 2).shape, F.unfold(X4, 3).shape, F.fold(torch.ones(1, 4, 9), (4, 4), 2).shape, F.grid_sample(X4, torch.zeros(2, 1, 1, 2), align_corners=False).shape, F.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2), align_corners=False)
F.embedding(torch.tensor([[0, 2]]), torch.arange(6.).view(3, 2)), F.one_hot(Y, 6)[0]
F.embedding(torch.tensor([3]), torch.ones(3, 2))
F.embedding(torch.tensor([0.]), torch.ones(3, 2))
F.one_hot(torch.tensor([-1]))
F.one_hot(torch.tensor([3]), 2)
F.mse_loss(X2, X2 + 1), F.l1_loss(X2, X2 * 2), F.smooth_l1_loss(X2, X2 + 3), F.huber_loss(X2, X2 + 3), F.cross_entropy(X2, Y), F.cross_entropy(X2, Y, label_smoothing=.1), F.cross_entropy(X2, Y, reduction='none'), F.cross_entropy(X2, X2.softmax(1)), F.nll_loss(X2, Y, weight=torch.arange(5.)), F.kl_div(X2, X2.softmax(1), reduction='batchmean'), F.binary_cross_entropy(X2.sigmoid(), (X2 > 0).float()), F.binary_cross_entropy_with_logits(X2, (X2 > 0).float(), pos_weight=torch.ones(5) * 2), F.hinge_embedding_loss(X2, X2.sign()), F.margin_ranking_loss(X2[0], X2[1], torch.ones(5)), F.cosine_embedding_loss(X2, X2, torch.ones(4)), F.triplet_margin_loss(X2, X2 + 1, X2 - 1), F.multi_margin_loss(X2, Y), F.soft_margin_loss(X2, X2.sign()), F.poisson_nll_loss(X2, X2.abs()), F.gaussian_nll_loss(X2, X2, X2.abs()), F.multilabel_soft_margin_loss(X2, (X2 > 0).float()), F.cross_entropy(X4, torch.zeros(2, 6, 6).long()), F.cross_entropy(X2[0], torch.tensor(2)), F.cross_entropy(X2, torch.tensor([1, -100, 2, 0]))
F.mse_loss(X2, X2[:1])
F.mse_loss(X2, torch.ones(3))
F.mse_loss(X2, X2, reduction='foo')
F.cross_entropy(X2, Y.float())
F.cross_entropy(X2, Y[:2])
F.cross_entropy(X2, torch.tensor([1, 0, 5, 2]))
F.cross_entropy(X2, Y.int())
F.nll_loss(X2, Y.view(2, 2))
F.binary_cross_entropy(X2, X2)
F.binary_cross_entropy_with_logits(X2, X2[0])
F.kl_div(X2, X2.softmax(1))
F.dropout(X2, 0.5)[0], F.dropout(X2, 0.5, training=False) is X2, F.dropout2d(X4).shape, F.alpha_dropout(X2).shape, F.dropout(X2, 1.)[0], F.feature_alpha_dropout(X4).shape
F.dropout(X2, 1.5)
F.scaled_dot_product_attention(X3, X3, X3)[0, 0], F.scaled_dot_product_attention(X3, X3, X3, attn_mask=torch.ones(3, 3).tril().bool())[0, 0, :2], F.multi_head_attention_forward
F.relu("a")
nn.Linear(2, 3)(torch.ones(4, 5))
nn.Linear(2, 3)(torch.ones(2).long())
nn.Linear(2, 3)("x")
nn.Conv2d(3, 4, 3)(torch.ones(1, 2, 5, 5))
nn.Conv2d(3, 4, 3)(torch.ones(5, 5))
nn.Conv2d(3, 4, 3, groups=2)
nn.BatchNorm1d(3)(torch.ones(2, 4))
nn.BatchNorm2d(3)(torch.ones(2, 3))
nn.BatchNorm1d(3)(torch.ones(1, 3))
nn.Embedding(3, 2)(torch.tensor([5]))
nn.Embedding(3, 2)(torch.tensor([1.]))
nn.LayerNorm(4)(torch.ones(2, 3))
nn.MultiheadAttention(5, 2)
nn.Dropout(2)
nn.Sequential(nn.Linear(1, 1), 3)
nn.Sequential(nn.ReLU())[3]
nn.ModuleList([1])
nn.ModuleDict({'a': nn.ReLU()})['b']
nn.Module()(1)
nn.Module().foo
nn.Flatten()(torch.ones(2, 3, 4)).shape, nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape, nn.Sequential(nn.Linear(1, 2), nn.ReLU())[0], len(nn.Sequential(nn.ReLU())), nn.Sequential(nn.ReLU(), nn.Tanh())[:1], nn.Sequential(nn.ReLU()).append(nn.Tanh()), nn.Identity(3, a=1)(2), nn.Softmax(1)(torch.ones(1, 2)), nn.Threshold(0, 1)(torch.ones(1))
nn.CrossEntropyLoss(weight=torch.ones(5), reduction='sum')(X2, Y), nn.MSELoss(reduction='none')(X2, X2).shape, nn.BCELoss()(torch.tensor([.5]), torch.tensor([1.])), nn.L1Loss()(X2, X2)
nn.init.calculate_gain('foo')
"""
for source in EXPRESSIONS.strip().splitlines():
    show(source)
