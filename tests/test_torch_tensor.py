"""Tensors: printing, conversion, copies, files, exchange with NumPy, views and writes.

`PROGRAMS` says what PyTorch 2.13 prints: see `torch_programs`.
"""

import io
import pickle
import zipfile

import numpy as np
import pytest
import torch_programs

import functrace as ft
import functrace.torch as torch

PROGRAMS = r"""
## print_all_dtypes
for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128):
    print(torch.arange(6).reshape(2,3).to(d)); print(torch.tensor(1).to(d)); print(torch.zeros(0).to(d)); print(torch.zeros(2,0,3).to(d))
#> tensor([[False,  True,  True],
#>         [ True,  True,  True]])
#> tensor(True)
#> tensor([], dtype=torch.bool)
#> tensor([], size=(2, 0, 3), dtype=torch.bool)
#> tensor([[0, 1, 2],
#>         [3, 4, 5]], dtype=torch.uint8)
#> tensor(1, dtype=torch.uint8)
#> tensor([], dtype=torch.uint8)
#> tensor([], size=(2, 0, 3), dtype=torch.uint8)
#> tensor([[0, 1, 2],
#>         [3, 4, 5]], dtype=torch.int8)
#> tensor(1, dtype=torch.int8)
#> tensor([], dtype=torch.int8)
#> tensor([], size=(2, 0, 3), dtype=torch.int8)
#> tensor([[0, 1, 2],
#>         [3, 4, 5]], dtype=torch.int16)
#> tensor(1, dtype=torch.int16)
#> tensor([], dtype=torch.int16)
#> tensor([], size=(2, 0, 3), dtype=torch.int16)
#> tensor([[0, 1, 2],
#>         [3, 4, 5]], dtype=torch.int32)
#> tensor(1, dtype=torch.int32)
#> tensor([], dtype=torch.int32)
#> tensor([], size=(2, 0, 3), dtype=torch.int32)
#> tensor([[0, 1, 2],
#>         [3, 4, 5]])
#> tensor(1)
#> tensor([], dtype=torch.int64)
#> tensor([], size=(2, 0, 3), dtype=torch.int64)
#> tensor([[0., 1., 2.],
#>         [3., 4., 5.]], dtype=torch.float16)
#> tensor(1., dtype=torch.float16)
#> tensor([], dtype=torch.float16)
#> tensor([], size=(2, 0, 3), dtype=torch.float16)
#> tensor([[0., 1., 2.],
#>         [3., 4., 5.]])
#> tensor(1.)
#> tensor([])
#> tensor([], size=(2, 0, 3))
#> tensor([[0., 1., 2.],
#>         [3., 4., 5.]], dtype=torch.float64)
#> tensor(1., dtype=torch.float64)
#> tensor([], dtype=torch.float64)
#> tensor([], size=(2, 0, 3), dtype=torch.float64)
#> tensor([[0.+0.j, 1.+0.j, 2.+0.j],
#>         [3.+0.j, 4.+0.j, 5.+0.j]])
#> tensor(1.+0.j)
#> tensor([], dtype=torch.complex64)
#> tensor([], size=(2, 0, 3), dtype=torch.complex64)
#> tensor([[0.+0.j, 1.+0.j, 2.+0.j],
#>         [3.+0.j, 4.+0.j, 5.+0.j]], dtype=torch.complex128)
#> tensor(1.+0.j, dtype=torch.complex128)
#> tensor([], dtype=torch.complex128)
#> tensor([], size=(2, 0, 3), dtype=torch.complex128)
## print_floats
print(torch.tensor([1e-10, 1.0])); print(torch.tensor([1e10, 1.])); print(torch.tensor([1e5,1.5])); print(torch.tensor([1e8,1.])); print(torch.tensor([123456789.]))
print(torch.tensor([float('nan'), 1., float('inf'), -float('inf')])); print(torch.tensor([float('nan')])); print(torch.tensor([float('inf'), 1.5])); print(torch.tensor([1e-5])); print(torch.tensor([0.00012]))
print(torch.tensor([-0.0, 0.0])); print(torch.tensor([1e38])); print(torch.tensor([1e-40])); print(torch.tensor(1e-40)); print(torch.tensor(123456.789)); print(torch.tensor(-5.)); print(torch.tensor([1000000., 1.]))
#> tensor([1.0000e-10, 1.0000e+00])
#> tensor([1.0000e+10, 1.0000e+00])
#> tensor([1.0000e+05, 1.5000e+00])
#> tensor([1.0000e+08, 1.0000e+00])
#> tensor([1.2346e+08])
#> tensor([nan, 1., inf, -inf])
#> tensor([nan])
#> tensor([   inf, 1.5000])
#> tensor([1.0000e-05])
#> tensor([0.0001])
#> tensor([-0., 0.])
#> tensor([1.0000e+38])
#> tensor([9.9999e-41])
#> tensor(9.9999e-41)
#> tensor(123456.7891)
#> tensor(-5.)
#> tensor([1.0000e+06, 1.0000e+00])
## print_summaries
print(torch.arange(1001.)); print(torch.arange(1000.)); print(torch.zeros(40,40)); print(torch.zeros(2,2000)); print(torch.zeros(20,20,20)); print(torch.arange(2000).reshape(2,1000))
#> tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])
#> tensor([  0.,   1.,   2.,   3.,   4.,   5.,   6.,   7.,   8.,   9.,  10.,  11.,
#>          12.,  13.,  14.,  15.,  16.,  17.,  18.,  19.,  20.,  21.,  22.,  23.,
#>          24.,  25.,  26.,  27.,  28.,  29.,  30.,  31.,  32.,  33.,  34.,  35.,
#>          36.,  37.,  38.,  39.,  40.,  41.,  42.,  43.,  44.,  45.,  46.,  47.,
#>          48.,  49.,  50.,  51.,  52.,  53.,  54.,  55.,  56.,  57.,  58.,  59.,
#>          60.,  61.,  62.,  63.,  64.,  65.,  66.,  67.,  68.,  69.,  70.,  71.,
#>          72.,  73.,  74.,  75.,  76.,  77.,  78.,  79.,  80.,  81.,  82.,  83.,
#>          84.,  85.,  86.,  87.,  88.,  89.,  90.,  91.,  92.,  93.,  94.,  95.,
#>          96.,  97.,  98.,  99., 100., 101., 102., 103., 104., 105., 106., 107.,
#>         108., 109., 110., 111., 112., 113., 114., 115., 116., 117., 118., 119.,
#>         120., 121., 122., 123., 124., 125., 126., 127., 128., 129., 130., 131.,
#>         132., 133., 134., 135., 136., 137., 138., 139., 140., 141., 142., 143.,
#>         144., 145., 146., 147., 148., 149., 150., 151., 152., 153., 154., 155.,
#>         156., 157., 158., 159., 160., 161., 162., 163., 164., 165., 166., 167.,
#>         168., 169., 170., 171., 172., 173., 174., 175., 176., 177., 178., 179.,
#>         180., 181., 182., 183., 184., 185., 186., 187., 188., 189., 190., 191.,
#>         192., 193., 194., 195., 196., 197., 198., 199., 200., 201., 202., 203.,
#>         204., 205., 206., 207., 208., 209., 210., 211., 212., 213., 214., 215.,
#>         216., 217., 218., 219., 220., 221., 222., 223., 224., 225., 226., 227.,
#>         228., 229., 230., 231., 232., 233., 234., 235., 236., 237., 238., 239.,
#>         240., 241., 242., 243., 244., 245., 246., 247., 248., 249., 250., 251.,
#>         252., 253., 254., 255., 256., 257., 258., 259., 260., 261., 262., 263.,
#>         264., 265., 266., 267., 268., 269., 270., 271., 272., 273., 274., 275.,
#>         276., 277., 278., 279., 280., 281., 282., 283., 284., 285., 286., 287.,
#>         288., 289., 290., 291., 292., 293., 294., 295., 296., 297., 298., 299.,
#>         300., 301., 302., 303., 304., 305., 306., 307., 308., 309., 310., 311.,
#>         312., 313., 314., 315., 316., 317., 318., 319., 320., 321., 322., 323.,
#>         324., 325., 326., 327., 328., 329., 330., 331., 332., 333., 334., 335.,
#>         336., 337., 338., 339., 340., 341., 342., 343., 344., 345., 346., 347.,
#>         348., 349., 350., 351., 352., 353., 354., 355., 356., 357., 358., 359.,
#>         360., 361., 362., 363., 364., 365., 366., 367., 368., 369., 370., 371.,
#>         372., 373., 374., 375., 376., 377., 378., 379., 380., 381., 382., 383.,
#>         384., 385., 386., 387., 388., 389., 390., 391., 392., 393., 394., 395.,
#>         396., 397., 398., 399., 400., 401., 402., 403., 404., 405., 406., 407.,
#>         408., 409., 410., 411., 412., 413., 414., 415., 416., 417., 418., 419.,
#>         420., 421., 422., 423., 424., 425., 426., 427., 428., 429., 430., 431.,
#>         432., 433., 434., 435., 436., 437., 438., 439., 440., 441., 442., 443.,
#>         444., 445., 446., 447., 448., 449., 450., 451., 452., 453., 454., 455.,
#>         456., 457., 458., 459., 460., 461., 462., 463., 464., 465., 466., 467.,
#>         468., 469., 470., 471., 472., 473., 474., 475., 476., 477., 478., 479.,
#>         480., 481., 482., 483., 484., 485., 486., 487., 488., 489., 490., 491.,
#>         492., 493., 494., 495., 496., 497., 498., 499., 500., 501., 502., 503.,
#>         504., 505., 506., 507., 508., 509., 510., 511., 512., 513., 514., 515.,
#>         516., 517., 518., 519., 520., 521., 522., 523., 524., 525., 526., 527.,
#>         528., 529., 530., 531., 532., 533., 534., 535., 536., 537., 538., 539.,
#>         540., 541., 542., 543., 544., 545., 546., 547., 548., 549., 550., 551.,
#>         552., 553., 554., 555., 556., 557., 558., 559., 560., 561., 562., 563.,
#>         564., 565., 566., 567., 568., 569., 570., 571., 572., 573., 574., 575.,
#>         576., 577., 578., 579., 580., 581., 582., 583., 584., 585., 586., 587.,
#>         588., 589., 590., 591., 592., 593., 594., 595., 596., 597., 598., 599.,
#>         600., 601., 602., 603., 604., 605., 606., 607., 608., 609., 610., 611.,
#>         612., 613., 614., 615., 616., 617., 618., 619., 620., 621., 622., 623.,
#>         624., 625., 626., 627., 628., 629., 630., 631., 632., 633., 634., 635.,
#>         636., 637., 638., 639., 640., 641., 642., 643., 644., 645., 646., 647.,
#>         648., 649., 650., 651., 652., 653., 654., 655., 656., 657., 658., 659.,
#>         660., 661., 662., 663., 664., 665., 666., 667., 668., 669., 670., 671.,
#>         672., 673., 674., 675., 676., 677., 678., 679., 680., 681., 682., 683.,
#>         684., 685., 686., 687., 688., 689., 690., 691., 692., 693., 694., 695.,
#>         696., 697., 698., 699., 700., 701., 702., 703., 704., 705., 706., 707.,
#>         708., 709., 710., 711., 712., 713., 714., 715., 716., 717., 718., 719.,
#>         720., 721., 722., 723., 724., 725., 726., 727., 728., 729., 730., 731.,
#>         732., 733., 734., 735., 736., 737., 738., 739., 740., 741., 742., 743.,
#>         744., 745., 746., 747., 748., 749., 750., 751., 752., 753., 754., 755.,
#>         756., 757., 758., 759., 760., 761., 762., 763., 764., 765., 766., 767.,
#>         768., 769., 770., 771., 772., 773., 774., 775., 776., 777., 778., 779.,
#>         780., 781., 782., 783., 784., 785., 786., 787., 788., 789., 790., 791.,
#>         792., 793., 794., 795., 796., 797., 798., 799., 800., 801., 802., 803.,
#>         804., 805., 806., 807., 808., 809., 810., 811., 812., 813., 814., 815.,
#>         816., 817., 818., 819., 820., 821., 822., 823., 824., 825., 826., 827.,
#>         828., 829., 830., 831., 832., 833., 834., 835., 836., 837., 838., 839.,
#>         840., 841., 842., 843., 844., 845., 846., 847., 848., 849., 850., 851.,
#>         852., 853., 854., 855., 856., 857., 858., 859., 860., 861., 862., 863.,
#>         864., 865., 866., 867., 868., 869., 870., 871., 872., 873., 874., 875.,
#>         876., 877., 878., 879., 880., 881., 882., 883., 884., 885., 886., 887.,
#>         888., 889., 890., 891., 892., 893., 894., 895., 896., 897., 898., 899.,
#>         900., 901., 902., 903., 904., 905., 906., 907., 908., 909., 910., 911.,
#>         912., 913., 914., 915., 916., 917., 918., 919., 920., 921., 922., 923.,
#>         924., 925., 926., 927., 928., 929., 930., 931., 932., 933., 934., 935.,
#>         936., 937., 938., 939., 940., 941., 942., 943., 944., 945., 946., 947.,
#>         948., 949., 950., 951., 952., 953., 954., 955., 956., 957., 958., 959.,
#>         960., 961., 962., 963., 964., 965., 966., 967., 968., 969., 970., 971.,
#>         972., 973., 974., 975., 976., 977., 978., 979., 980., 981., 982., 983.,
#>         984., 985., 986., 987., 988., 989., 990., 991., 992., 993., 994., 995.,
#>         996., 997., 998., 999.])
#> tensor([[0., 0., 0.,  ..., 0., 0., 0.],
#>         [0., 0., 0.,  ..., 0., 0., 0.],
#>         [0., 0., 0.,  ..., 0., 0., 0.],
#>         ...,
#>         [0., 0., 0.,  ..., 0., 0., 0.],
#>         [0., 0., 0.,  ..., 0., 0., 0.],
#>         [0., 0., 0.,  ..., 0., 0., 0.]])
#> tensor([[0., 0., 0.,  ..., 0., 0., 0.],
#>         [0., 0., 0.,  ..., 0., 0., 0.]])
#> tensor([[[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]],
#>
#>         [[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]],
#>
#>         [[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]],
#>
#>         ...,
#>
#>         [[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]],
#>
#>         [[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]],
#>
#>         [[0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          ...,
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.],
#>          [0., 0., 0.,  ..., 0., 0., 0.]]])
#> tensor([[   0,    1,    2,  ...,  997,  998,  999],
#>         [1000, 1001, 1002,  ..., 1997, 1998, 1999]])
## print_options
torch.set_printoptions(precision=2); print(torch.tensor([1.23456, 2.])); torch.set_printoptions(sci_mode=True); print(torch.tensor([1.2345, 2.]))
torch.set_printoptions(sci_mode=False); print(torch.tensor([1e-10, 1e10])); torch.set_printoptions(profile='full'); print(torch.arange(1100).shape)
torch.set_printoptions(profile='short'); print(torch.arange(2000.)); torch.set_printoptions(profile='default', linewidth=40); print(torch.arange(30.)); torch.set_printoptions(profile='default')
torch.set_printoptions(threshold=5, edgeitems=1); print(torch.arange(30.).reshape(5,6)); torch.set_printoptions(profile='default')
torch.set_printoptions(threshold=0, edgeitems=0); print(torch.arange(3.)); torch.set_printoptions(profile='default')
torch.set_printoptions(precision=10); print(torch.tensor([1/3], dtype=torch.float64)); torch.set_printoptions(profile='default')
#> tensor([1.23, 2.00])
#> tensor([1.23e+00, 2.00e+00])
#> tensor([          0.00, 10000000000.00])
#> torch.Size([1100])
#> tensor([0.00e+00, 1.00e+00,  ..., 2.00e+03, 2.00e+03])
#> tensor([ 0.,  1.,  2.,  3.,  4.,  5.,
#>          6.,  7.,  8.,  9., 10., 11.,
#>         12., 13., 14., 15., 16., 17.,
#>         18., 19., 20., 21., 22., 23.,
#>         24., 25., 26., 27., 28., 29.])
#> tensor([[ 0.,  ...,  5.],
#>         ...,
#>         [24.,  ..., 29.]])
#> tensor([...], size=(3,))
#> tensor([0.3333333333], dtype=torch.float64)
## print_complex
print(torch.tensor([1+2j, 3.5-4j])); print(torch.tensor([1e-10+1j])); print(torch.tensor(1+2j)); print(torch.tensor([[1j, -1j]], dtype=torch.complex128)); print(torch.tensor([complex('nan'), complex('inf')])); print(torch.tensor([1e10+1e-5j, 2.]))
print(torch.tensor([1000+2j, 3.])); print(torch.tensor([1.5+2j, 3.])); print(torch.zeros(0, dtype=torch.complex64))
#> tensor([1.0000+2.j, 3.5000-4.j])
#> tensor([1.0000e-10+1.j])
#> tensor(1.+2.j)
#> tensor([[0.+1.j, -0.-1.j]], dtype=torch.complex128)
#> tensor([nan+0.j, inf+0.j])
#> tensor([1.0000e+10+1.0000e-05j, 2.0000e+00+0.0000e+00j])
#> tensor([1000.+2.j,    3.+0.j])
#> tensor([1.5000+2.j, 3.0000+0.j])
#> tensor([], dtype=torch.complex64)
## print_with_history_and_format
x = torch.ones(2, 3, requires_grad=True); print(x, x*2, (x*2).double(), x.double(), x.sum(), x[0], x.t(), x.view(-1), (x*2).detach()); print(str(x), repr(x), f'{x.sum()}', f'{x}', '%s' % x)
print(f'{x.sum():.3f}', f'{torch.tensor(5):d}', f'{torch.tensor(2.5):10.2e}|'); print(f'{torch.tensor(True)}', [torch.tensor(1.), torch.tensor([2])], {'a': torch.ones(1)})
#> tensor([[1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True) tensor([[2., 2., 2.],
#>         [2., 2., 2.]], grad_fn=<MulBackward0>) tensor([[2., 2., 2.],
#>         [2., 2., 2.]], dtype=torch.float64, grad_fn=<ToCopyBackward0>) tensor([[1., 1., 1.],
#>         [1., 1., 1.]], dtype=torch.float64, grad_fn=<ToCopyBackward0>) tensor(6., grad_fn=<SumBackward0>) tensor([1., 1., 1.], grad_fn=<SelectBackward0>) tensor([[1., 1.],
#>         [1., 1.],
#>         [1., 1.]], grad_fn=<TBackward0>) tensor([1., 1., 1., 1., 1., 1.], grad_fn=<ViewBackward0>) tensor([[2., 2., 2.],
#>         [2., 2., 2.]])
#> tensor([[1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True) tensor([[1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True) 6.0 tensor([[1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True) tensor([[1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True)
#> 6.000 5   2.50e+00|
#> True [tensor(1.), tensor([2])] {'a': tensor([1.])}
## print_format_of_several
f'{torch.ones(2):.3f}'
#> ! TypeError: unsupported format string passed to Tensor.__format__
## print_default_dtype
torch.set_default_dtype(torch.float64); print(torch.ones(2), torch.ones(2, dtype=torch.float32), torch.ones(2).to(torch.complex64), torch.tensor(1j)); torch.set_default_dtype(torch.float32)
#> tensor([1., 1.]) tensor([1., 1.], dtype=torch.float32) tensor([1.+0.j, 1.+0.j], dtype=torch.complex64) tensor(0.+1.j)
## print_nested
print(torch.arange(24.).reshape(2,3,4)); print(torch.arange(16.).reshape(2,2,2,2)); print(torch.zeros(1,1,1)); print(torch.zeros(3,0)); print(torch.rand(0,3).shape)
print(torch.full((3,3), 1e-3)); print(torch.eye(3)*1e4+.5); print(torch.tensor([[1.,-2.],[3.,1e3]])); print(torch.tensor([[True, False]])); print(torch.tensor([-1, 100, 5])); print(torch.tensor([255], dtype=torch.uint8))
#> tensor([[[ 0.,  1.,  2.,  3.],
#>          [ 4.,  5.,  6.,  7.],
#>          [ 8.,  9., 10., 11.]],
#>
#>         [[12., 13., 14., 15.],
#>          [16., 17., 18., 19.],
#>          [20., 21., 22., 23.]]])
#> tensor([[[[ 0.,  1.],
#>           [ 2.,  3.]],
#>
#>          [[ 4.,  5.],
#>           [ 6.,  7.]]],
#>
#>
#>         [[[ 8.,  9.],
#>           [10., 11.]],
#>
#>          [[12., 13.],
#>           [14., 15.]]]])
#> tensor([[[0.]]])
#> tensor([], size=(3, 0))
#> torch.Size([0, 3])
#> tensor([[0.0010, 0.0010, 0.0010],
#>         [0.0010, 0.0010, 0.0010],
#>         [0.0010, 0.0010, 0.0010]])
#> tensor([[1.0000e+04, 5.0000e-01, 5.0000e-01],
#>         [5.0000e-01, 1.0000e+04, 5.0000e-01],
#>         [5.0000e-01, 5.0000e-01, 1.0000e+04]])
#> tensor([[   1.,   -2.],
#>         [   3., 1000.]])
#> tensor([[ True, False]])
#> tensor([ -1, 100,   5])
#> tensor([255], dtype=torch.uint8)
## print_line_breaks
print(torch.ones(100, requires_grad=True)); print(torch.ones(26, dtype=torch.float64)); print(torch.ones(13, dtype=torch.float16, requires_grad=True)); print(torch.ones(3,100)*1.5)
print(torch.tensor([1.5]*12, requires_grad=True)*2); print(torch.tensor([1.5]*10, requires_grad=True)*2); print(torch.tensor([15.5]*8, requires_grad=True, dtype=torch.double)*2)
#> tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1., 1., 1.], requires_grad=True)
#> tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
#>         1., 1., 1., 1., 1., 1., 1., 1.], dtype=torch.float64)
#> tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],
#>        dtype=torch.float16, requires_grad=True)
#> tensor([[1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000],
#>         [1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000],
#>         [1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,
#>          1.5000]])
#> tensor([3., 3., 3., 3., 3., 3., 3., 3., 3., 3., 3., 3.],
#>        grad_fn=<MulBackward0>)
#> tensor([3., 3., 3., 3., 3., 3., 3., 3., 3., 3.], grad_fn=<MulBackward0>)
#> tensor([31., 31., 31., 31., 31., 31., 31., 31.], dtype=torch.float64,
#>        grad_fn=<MulBackward0>)
## print_torch_objects
print(torch.Size([1,2]), torch.float32, torch.device('cpu'), torch.strided, torch.contiguous_format, torch.ones(2).shape, torch.ones(1).dtype, torch.ones(1).device, torch.ones(1).layout, type(torch.ones(1)), torch.ones(1).type(), torch.finfo(torch.float32), torch.iinfo(torch.int8))
#> torch.Size([1, 2]) torch.float32 cpu torch.strided torch.contiguous_format torch.Size([2]) torch.float32 cpu torch.strided <class 'torch.Tensor'> torch.FloatTensor finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32) iinfo(min=-128, max=127, dtype=int8)
## requires_grad_is_switched_on_leaves
import numpy as np
x = torch.ones(2, requires_grad=True)
x.requires_grad = False; print(x.requires_grad)
(x.requires_grad_()*2).requires_grad_(False)
#> False
#> ! RuntimeError: you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgrap
## integer_tensors_have_no_grad
torch.ones(2, dtype=torch.int64, requires_grad=True)
#> ! RuntimeError: Only Tensors of floating point and complex dtype can require gradients
## integer_tensors_have_no_grad_later
torch.ones(2, dtype=torch.int64).requires_grad_()
#> ! RuntimeError: only Tensors of floating point dtype can require gradients
## requires_grad_is_bool
x = torch.ones(2); x.requires_grad = 1; print(x)
#> ! RuntimeError: requires_grad must be a bool
## deepcopy_of_leaves_only
import copy
x = torch.ones(2, requires_grad=True); y = copy.deepcopy(x); print(y, y is x); y = copy.copy(x); print(y); copy.deepcopy(x*2)
#> tensor([1., 1.], requires_grad=True) False
#> tensor([1., 1.], requires_grad=True)
#> ! RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If yo
## pickles
import pickle
for t in (torch.ones(2), torch.arange(3), torch.tensor(1.5), torch.ones(2,3).t(), torch.tensor([True]), torch.ones(2, requires_grad=True), torch.zeros(0,2)): u = pickle.loads(pickle.dumps(t)); print(u, u.shape, u.dtype, u.requires_grad)
#> tensor([1., 1.]) torch.Size([2]) torch.float32 False
#> tensor([0, 1, 2]) torch.Size([3]) torch.int64 False
#> tensor(1.5000) torch.Size([]) torch.float32 False
#> tensor([[1., 1.],
#>         [1., 1.],
#>         [1., 1.]]) torch.Size([3, 2]) torch.float32 False
#> tensor([True]) torch.Size([1]) torch.bool False
#> tensor([1., 1.], requires_grad=True) torch.Size([2]) torch.float32 True
#> tensor([], size=(0, 2)) torch.Size([0, 2]) torch.float32 False
## pickle_of_nonleaves
import pickle
pickle.dumps(torch.ones(2, requires_grad=True)*2)
## facts
x = torch.arange(6.).reshape(2,3)
print(x.stride(), x.t().stride(), x.is_contiguous(), x.t().is_contiguous(), x.storage_offset(), x[1].storage_offset(), x.numel(), x.nelement(), x.element_size(), x.dim(), x.ndimension(), x.size(), x.size(0), x.size(-1), len(x), x.data_ptr() == x[0].data_ptr(), x.is_floating_point(), x.is_complex(), x.is_signed(), x.is_leaf, x.is_cuda, x.is_sparse, x.names if hasattr(x,'names') else 0)
#> (3, 1) (1, 3) True False 0 3 6 6 4 2 2 torch.Size([2, 3]) 2 3 2 True True False True True False False 0
## data_can_be_replaced
x = torch.arange(3.); x.data = torch.ones(4); print(x, x.shape); y = x.data; y[0] = 5; print(x, x._version)
#> tensor([1., 1., 1., 1.]) torch.Size([4])
#> tensor([5., 1., 1., 1.]) 0
## data_is_not_noticed
x = torch.ones(2, requires_grad=True); x.data.add_(1); print(x, x._version); x.data = torch.zeros(2); print(x)
x.grad = torch.ones(2); print(x.grad); x.grad = None; x.grad = torch.ones(3)
#> tensor([2., 2.], requires_grad=True) 0
#> tensor([0., 0.], requires_grad=True)
#> tensor([1., 1.])
#> ! RuntimeError: attempting to assign a gradient of size '[3]' to a tensor of size '[2]'. Please ensure that the gradient and t
## grad_is_a_tensor
x = torch.ones(2, requires_grad=True); x.grad = 3
#> ! TypeError: assigned grad expected to be a Tensor or None but got grad of type int
## grad_has_the_dtype
x = torch.ones(2, requires_grad=True); x.grad = torch.ones(2, dtype=torch.double)
#> ! RuntimeError: attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'. The gradient must mat
## conversions_to_python
x = torch.ones(2); x.foo = 3; print(x.foo, hash(x) == id(x), x in [x], bool(torch.tensor(1.)), int(torch.tensor(3.7)), float(torch.tensor(2)), complex(torch.tensor(1.)), [1,2,3][torch.tensor(1)], torch.tensor(3).__index__())
bool(torch.ones(2))
#> 3 True True True 3 2.0 (1+0j) 2 3
#> ! RuntimeError: Boolean value of Tensor with more than one value is ambiguous
## int_of_several
int(torch.ones(2))
#> ! ValueError: only one element tensors can be converted to Python scalars
## item_of_several
torch.tensor([1.5]).item(); torch.ones(2).item()
#> ! RuntimeError: a Tensor with 2 elements cannot be converted to Scalar
## index_of_floats
[1,2][torch.tensor(1.)]
#> ! TypeError: only integer tensors of a single element can be converted to an index
## len_of_scalar
len(torch.tensor(1))
#> ! TypeError: len() of a 0-d tensor
## iteration_of_scalar
for x in torch.tensor(1): pass
#> ! TypeError: iteration over a 0-d tensor
## contains
print(3 in torch.tensor([1,2,3]), torch.tensor(2.) in torch.tensor([1,2]), list(torch.arange(3)), [a.tolist() for a in torch.ones(2,2)]); 'a' in torch.ones(2)
#> True True [tensor(0), tensor(1), tensor(2)] [[1.0, 1.0], [1.0, 1.0]]
#> ! RuntimeError: Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class 'str'>.
## numpy_of_leaves
x = torch.ones(2, requires_grad=True); print(x.numpy().flags.writeable if False else 1); print((x*2).detach().numpy(), x.detach().numpy())
#> 1
#> [2. 2.] [1. 1.]
## equality
a, b = torch.ones(2), torch.ones(2); print(a == b, a != b, (a == b).all(), a is b, torch.equal(a, b), a == 1, a == None)
#> tensor([True, True]) tensor([False, False]) tensor(True) False True tensor([True, True]) False
## predicates
x = torch.tensor([1,2,3]); print(x.tolist(), x.sum().item(), type(x.sum().item()), torch.tensor(1.5).tolist(), x.dtype, x.__class__.__name__, isinstance(x, torch.Tensor), torch.is_tensor(x), torch.is_tensor(3), torch.numel(x), torch.is_floating_point(x), torch.is_complex(x))
#> [1, 2, 3] 6 <class 'int'> 1.5 torch.int64 Tensor True True False 3 False False
## new_tensors
x = torch.ones(2); print(x.new_zeros(3), x.new_ones(2, dtype=torch.int32), x.new_tensor([1,2]), x.new_full((2,), 3.), x.new_empty(0), torch.zeros_like(x), torch.Tensor([1,2]), torch.Tensor(2,0), torch.FloatTensor([1]), torch.LongTensor([1,2]), torch.Tensor(torch.ones(1)))
#> tensor([0., 0., 0.]) tensor([1, 1], dtype=torch.int32) tensor([1., 2.]) tensor([3., 3.]) tensor([]) tensor([0., 0.]) tensor([1., 2.]) tensor([], size=(2, 0)) tensor([1.]) tensor([1, 2]) tensor([1.])
## writes_and_accumulation
x = torch.zeros(2, requires_grad=True)
try:
    x += 1
except RuntimeError as e: print(e)
with torch.no_grad(): x += 1
print(x, x._version)
y = x * 2
y += 1; print(y, y._version); y.sum().backward(); print(x.grad); x.grad.zero_(); print(x.grad)
#> a leaf Variable that requires grad is being used in an in-place operation.
#> tensor([1., 1.], requires_grad=True) 1
#> tensor([3., 3.], grad_fn=<AddBackward0>) 1
#> tensor([2., 2.])
#> tensor([0., 0.])
## grad_is_deleted
print(torch.zeros(2).share_memory_() if False else '', torch.ones(2).requires_grad_().detach().requires_grad, torch.ones(2).is_shared() if False else '')
del torch.ones(2).grad
#>  False
## memory_is_shared
x = torch.arange(3.); y = x.numpy(); y[0] = 7; print(x); x[1] = 8; print(y); print(torch.as_tensor(y).data_ptr() == x.data_ptr(), torch.tensor(y).data_ptr() == x.data_ptr(), torch.from_numpy(np.arange(3)) if False else '')
#> tensor([7., 1., 2.])
#> [7. 8. 2.]
#> True False
## write_through_a_view
x = torch.arange(4., requires_grad=True); y = x*1; v = y[1:3]; v.mul_(2); print(v, y, v.grad_fn, y.grad_fn, v._is_view(), v._base is y, y._version, v._version); y.sum().backward(); print(x.grad)
#> tensor([2., 4.], grad_fn=<AsStridedBackward0>) tensor([0., 2., 4., 3.], grad_fn=<CopySlices>) <AsStridedBackward0 object at 0x> <CopySlices object at 0x> True True 1 1
#> tensor([1., 2., 2., 1.])
## views_of_views_follow_the_base
x = torch.arange(4., requires_grad=True); y = x*1; v = y[1:3]; w = v[0]; y.mul_(3); print(w, w.grad_fn, v.grad_fn, w._base is y); w.backward(); print(x.grad)
#> tensor(3., grad_fn=<AsStridedBackward0>) <AsStridedBackward0 object at 0x> <AsStridedBackward0 object at 0x> True
#> tensor([0., 3., 0., 0.])
## view_of_leaf_refuses_writes
x = torch.ones(4, requires_grad=True); v = x[:2]; v.add_(1)
#> ! RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.
## leaf_refuses_writes
x = torch.ones(4, requires_grad=True); x.add_(1)
#> ! RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.
## chunks_refuse_writes
x = torch.ones(4, requires_grad=True); y = x*1; a, b = y.chunk(2); a.add_(1)
#> ! RuntimeError: Output 0 of Split is a view and is being modified inplace. This view is the output of a function that returns
## unbind_refuses_writes
x = torch.ones(4, requires_grad=True); y = x*1; a, b = y.unbind(0)[:2]; a.add_(1)
#> ! RuntimeError: Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns
## split_after_write_refuses_use
x = torch.ones(4, requires_grad=True); y = x*1; a, b = y.split(2); y.add_(1); print(a, a.grad_fn); a.sum()
#> ! RuntimeError: Output 0 of Split is a view and its base or another view of its base has been modified inplace. This view is t
## rows_of_iteration_refuse_writes
x = torch.ones(4, requires_grad=True); y = x*1;
for a in y: a.add_(1)
#> ! RuntimeError: Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns
## no_grad_view_refuses_recorded_writes
x = torch.ones(4, requires_grad=True); y = x*1
with torch.no_grad(): v = y[:2]
print(v.requires_grad); v.add_(1)
#> True
#> ! RuntimeError: A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use c
## no_grad_writes_through_views
x = torch.ones(4, requires_grad=True); y = x*1
with torch.no_grad(): v = y[:2]; v.add_(1)
print(y, y._version); y.sum().backward(); print(x.grad)
#> tensor([2., 2., 1., 1.], grad_fn=<MulBackward0>) 1
#> tensor([1., 1., 1., 1.])
## writes_bring_history
x = torch.ones(3); y = torch.ones(3, requires_grad=True)
x.add_(y); print(x, x.requires_grad); v = torch.zeros(4); u = v[:2]; u.copy_(y[:2]*3); print(v, v.grad_fn, u, u.grad_fn); v.sum().backward(); print(y.grad)
#> tensor([2., 2., 2.], grad_fn=<AddBackward0>) True
#> tensor([3., 3., 0., 0.], grad_fn=<CopySlices>) <CopySlices object at 0x> tensor([3., 3.], grad_fn=<AsStridedBackward0>) <AsStridedBackward0 object at 0x>
#> tensor([3., 3., 0.])
## write_to_saved_result
a = torch.ones(2, requires_grad=True); b = a.exp(); b.add_(1); b.sum().backward()
#> ! RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTe
## write_to_saved_argument
a = torch.ones(2, requires_grad=True); b = a*2; c = b*b; b.add_(1); c.sum().backward()
#> ! RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTe
## write_to_unsaved
a = torch.ones(2, requires_grad=True); b = a.sin(); b.add_(1); b.sum().backward(); print(a.grad)
#> tensor([0.5403, 0.5403])
## write_to_matrix_of_product
a = torch.ones(2,2, requires_grad=True); b = a*1; c = b@b; b[0] = 5; c.sum().backward()
#> ! RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTe
## assignment_to_items
a = torch.zeros(2,2, requires_grad=True); b = a*1; b[0] = 5; b[1,1] = a[0,0]*2; print(b, b.grad_fn); b.sum().backward(); print(a.grad)
#> tensor([[5., 5.],
#>         [0., 0.]], grad_fn=<CopySlices>) <CopySlices object at 0x>
#> tensor([[2., 0.],
#>         [1., 0.]])
## assignment_with_masks
a = torch.zeros(3, requires_grad=True); b = a.clone(); b[torch.tensor([0,2])] = 1.; b[b > 0] += 2; print(b, b.grad_fn); b.sum().backward(); print(a.grad)
#> tensor([3., 0., 3.], grad_fn=<IndexPutBackward0>) <IndexPutBackward0 object at 0x>
#> tensor([0., 1., 0.])
## detached_writes_are_noticed
a = torch.zeros(3, requires_grad=True); b = a.detach(); b[0] = 5; print(a, a._version, b._version); c = (a*a); b.add_(1); c.sum().backward()
#> tensor([5., 0., 0.], requires_grad=True) 1 1
#> ! RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTe
## data_writes_are_not
a = torch.zeros(3, requires_grad=True); c = a*a; a.data.add_(1); c.sum().backward(); print(a.grad)
#> tensor([2., 2., 2.])
## transposed_views
a = torch.zeros(3, 2, requires_grad=True); b = (a*1).t(); print(b._base is None, b.grad_fn); b.mul_(2); b[0].zero_(); print(b.grad_fn, b._base.grad_fn); b.sum().backward(); print(a.grad)
#> False <TBackward0 object at 0x>
#> <AsStridedBackward0 object at 0x> <CopySlices object at 0x>
#> tensor([[0., 2.],
#>         [0., 2.],
#>         [0., 2.]])
## expanded_views_refuse_writes
a = torch.ones(3); b = a.expand(2,3); b.add_(1)
#> ! RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single memory location. Plea
## overlapping_writes_refuse
a = torch.ones(3); a[1:] .add_(a[:-1]); print(a)
#> ! RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory lo
## nonleaf_keeps_requiring_grad
x = torch.ones(3, requires_grad=True); y = x * 2; y.requires_grad_(False)
#> ! RuntimeError: you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgrap
## views_are_not_detached_in_place
x = torch.ones(3, requires_grad=True); y = (x*2)[1:]; y.detach_()
#> ! RuntimeError: Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training
## view_of_view_writes_base
x = torch.ones(3, requires_grad=True)*1; y = x.view(3,1).view(-1); print(y._base is x, y._version); y.zero_(); print(x); x.sum().backward()
#> True 0
#> tensor([0., 0., 0.], grad_fn=<CopySlices>)
## base_write_reaches_views
x = torch.ones(4, requires_grad=True); y = x*1; v = y.view(2,2); y[0] = 3; print(v.grad_fn, v); v[1].mul_(5); print(y, y.grad_fn, v.grad_fn); (y*torch.arange(4.)).sum().backward(); print(x.grad)
#> <AsStridedBackward0 object at 0x> tensor([[3., 1.],
#>         [1., 1.]], grad_fn=<AsStridedBackward0>)
#> tensor([3., 1., 5., 5.], grad_fn=<CopySlices>) <CopySlices object at 0x> <AsStridedBackward0 object at 0x>
#> tensor([ 0.,  1., 10., 15.])
## powers_in_place
x = torch.tensor(2., requires_grad=True); y = x**2; y *= 3; y -= 1; y /= 2; y **= 2; print(y, y.grad_fn); y.backward(); print(x.grad)
#> tensor(30.2500, grad_fn=<PowBackward0>) <PowBackward0 object at 0x>
#> tensor(66.)
## integers_refuse_floats
x = torch.ones(2, dtype=torch.int64); x += 1.5
#> ! RuntimeError: result type Float can't be cast to the desired output type Long
## in_place_keeps_dtype_and_shape
x = torch.ones(2); x += torch.ones(2, dtype=torch.double); print(x); x.add_(torch.ones(3))
#> tensor([2., 2.])
#> ! RuntimeError: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0
## in_place_refuses_broadcast
x = torch.ones(2); x.add_(torch.ones(2,2))
#> ! RuntimeError: output with shape [2] doesn't match the broadcast shape [2, 2]
## retain_grad_of_views
x = torch.ones(2, requires_grad=True); y = x.clone(); y.retain_grad(); z = y[0]; z.retain_grad(); (z*3).backward(); print(y.grad, z.grad)
#> tensor([3., 0.]) tensor(3.)
## copy_in_place
x = torch.ones(2, requires_grad=True); y = x * 2; y.set_(torch.ones(2)) if False else 0; y.copy_(torch.zeros(2)); print(y.grad_fn); y.sum().backward(); print(x.grad)
#> <CopyBackwards object at 0x>
#> tensor([0., 0.])
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


def saved(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return file


def test_files_keep_values_types_sharing_and_flags():
    base = torch.arange(6.0).reshape(2, 3)
    tree = {
        "base": base, "view": base.t()[1:], "list": [1, 2.5, "x", None, (True,), 3j], "int": torch.tensor([1, 2]), "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.0), "leaf": torch.ones(2, requires_grad=True), "half": torch.ones(2, dtype=torch.float16),
        "u16": torch.tensor([1], dtype=torch.uint16), "dtype": torch.float64, "size": torch.Size([2]), "complex": torch.tensor([1 + 2j]),
    }  # fmt: skip
    back = torch.load(saved(tree))
    assert back["list"] == tree["list"] and back["dtype"] is torch.float64 and isinstance(back["size"], torch.Size)
    for name, x in tree.items():
        if isinstance(x, torch.Tensor):
            y = back[name]
            assert (y.tolist(), y.dtype, y.shape, y.requires_grad) == (x.tolist(), x.dtype, x.shape, x.requires_grad), name
    back["base"][0, 1] = 100.0
    assert back["view"][0, 0] == 100.0
    assert torch.load(saved(torch.ones(2, requires_grad=True) * 2)).tolist() == [2.0, 2.0]


def test_loading_runs_no_code():
    class Evil:
        def __reduce__(self):
            return print, ("evil",)

    with pytest.raises(pickle.UnpicklingError, match=r"print was not an allowed global"):
        torch.load(saved({"x": Evil()}))
    file = saved(ZeroDivisionError("x"))
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file)
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=False), ZeroDivisionError)
    file.seek(0)
    with torch.serialization.safe_globals([ZeroDivisionError]):
        assert isinstance(torch.load(file), ZeroDivisionError)
    assert not torch.serialization.get_safe_globals()


@pytest.mark.parametrize("stride", [(1000, 1), (-1, 1)])
def test_a_tensor_can_not_reach_out_of_its_storage(stride):
    from functrace.torch import _serialization

    with pytest.raises(pickle.UnpicklingError, match="does not fit"):
        _serialization._rebuild_tensor_v2(_serialization._Storage(np.zeros(6)), 0, (2, 3), stride, False, {})


def test_broken_files_say_so():
    with pytest.raises(pickle.UnpicklingError, match="not a file of torch.save"):
        torch.load(io.BytesIO(b"nonsense"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(RuntimeError, match="no data.pkl"):
        torch.load(file)
    with pytest.raises(RuntimeError, match="only the CPU"):
        torch.load(saved(1), map_location="cuda")


def test_files_are_pytorchs():
    real = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    base = torch.arange(6.0).reshape(2, 3)
    tree = {"a": base, "b": base.t()[1:], "c": [torch.tensor([1 + 2j]), torch.tensor([True]), torch.arange(3)], "n": 1}
    theirs = real.load(saved(tree))
    assert theirs["a"].tolist() == base.tolist() and theirs["b"].stride() == tree["b"].stride() and theirs["c"][2].tolist() == [0, 1, 2]
    file = io.BytesIO()
    real.save({"m": real.nn.Linear(2, 3).state_dict(), "h": real.ones(2).half(), "s": {1, 2}, "b": b"abc", "d": real.float32}, file)
    ours = torch.load(file)
    assert list(ours["m"]) == ["weight", "bias"] and ours["h"].dtype is torch.float16 and ours["b"] == b"abc" and ours["d"] is torch.float32


def test_exchange_by_dlpack_shares_memory():
    t = torch.zeros(3)
    a = np.from_dlpack(t)
    t[0] = 5.0
    assert a[0] == 5.0
    b = np.arange(3.0)
    torch.from_dlpack(b)[1] = 7.0
    assert b[1] == 7.0
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.concatenate([x, x * x]),
        lambda x: np.linalg.norm(x),
        lambda x: np.dot(x, np.exp(x)),
        lambda x: np.einsum("i,j->ij", x, x),
        lambda x: np.where(x > 0.5, x, x * x),
        lambda x: np.sum(np.sin(x) * np.cumsum(x)),
        lambda x: np.stack([x, np.tanh(x)]).mean(),
    ],
)
def test_backward_runs_through_functions_written_with_numpy(f):
    values = np.array([0.3, 0.9, 0.6])
    x = torch.tensor(values, requires_grad=True)
    y = f(x)
    assert isinstance(y, torch.Tensor) and y.requires_grad
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), f(values))
    np.testing.assert_allclose(x.grad.numpy(), ft.grad(lambda a: np.sum(f(a)))(values), rtol=1e-12)


def test_numpy_functions_on_tensors_without_grad_give_arrays_as_under_pytorch():
    out = np.concatenate([torch.ones(1), torch.zeros(1)])
    assert isinstance(out, np.ndarray) and out.tolist() == [1.0, 0.0]


def test_second_derivative_through_numpy():
    x = torch.tensor([0.3, 0.9], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(np.linalg.norm(x) ** 4, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(h.numpy(), ft.jacobian(ft.grad(lambda a: np.sum(a * a) ** 2))(v) @ np.ones(2), rtol=1e-10)


def test_the_machine_has_no_accelerator():
    assert not torch.cuda.is_available() and not torch.backends.mps.is_available() and torch.cuda.device_count() == 0
    assert torch.device("cuda" if torch.cuda.is_available() else "cpu").type == "cpu" and torch.ones(1).to("cpu").device == torch.device(
        "cpu"
    )
    for use in (
        lambda: torch.cuda.current_device(),
        lambda: torch.ones(1).cuda(),
        lambda: torch.ones(1, device="cuda"),
        lambda: torch.device("mps"),
    ):
        with pytest.raises(RuntimeError, match="only the CPU"):
            use()


def test_what_is_not_there_names_an_alternative():
    for name, hint in (("jit", "functrace.jit"), ("sparse", "dense tensors"), ("distributed", "one process")):
        with pytest.raises(NotImplementedError, match=hint):
            getattr(torch, name)


def test_a_compiled_function_is_a_program_where_it_is_pure():
    def program(compiled):
        (found,) = compiled.programs.values()
        return found and found.cache_info()

    x, w = torch.arange(3.0), torch.ones(3)
    pure = torch.compile(lambda a, k=2: torch.sin(a) * k + w if a.sum() > 0 else -a)
    for given in (x, -x, x, x):
        assert torch.equal(pure(given), torch.sin(given) * 2 + w if given.sum() > 0 else -given)
    assert program(pure)["recorded"] == 2 and program(pure)["hits"] >= 2
    w.add_(1)
    assert torch.equal(pure(x), torch.sin(x) * 2 + 2) and torch.equal(pure(x, 3), torch.sin(x) * 3 + 2)


def test_a_compiled_function_that_is_not_pure_runs_as_it_is():
    calls, x = [], torch.ones(3)

    @torch.compile(dynamic=True)
    def noting(a):
        calls.append(1)
        return a * 2

    @torch.compile
    def drawing(a):
        return a + torch.rand(3)

    @torch.compile
    def writing(a):
        a += 1
        return a * 2

    @torch.compile
    def aliasing(a):
        return a.view(3, 1)

    noting(x), noting(x)
    torch.manual_seed(0)
    first, second = drawing(x), drawing(x)
    torch.manual_seed(0)
    assert len(calls) == 2 and torch.equal(first, x + torch.rand(3)) and torch.equal(second, x + torch.rand(3))
    assert writing(x).tolist() == [4.0] * 3 and writing(x).tolist() == [6.0] * 3 and x.tolist() == [3.0] * 3
    aliasing(x)
    aliasing(x)[0] = 9
    assert x[0] == 9
    leaf = torch.ones(3, requires_grad=True)
    noting(leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 3
    layer = torch.nn.Linear(2, 2)
    assert torch.compile(layer) is layer
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.compile(noting, speed=3)


def test_what_scripts_seldom_need_is_not_imported():
    import subprocess
    import sys

    code = "import sys, functrace.torch as t; print([m for m in sys.modules if m.startswith('functrace.torch.') and m.count('.') == 2])"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("func", "_serialization", "nn", "optim", "utils"):
        assert f"'functrace.torch.{name}'" not in modules
    code = "import sys, torch; torch.tensor(1.); print([m for m in ('importlib.abc', 'tempfile', 'functrace.jit') if m in sys.modules])"
    run = [sys.executable, "-m", "functrace.torch", "-c", code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"
    assert torch.autograd.Function is not None and torch.func.grad is not None
