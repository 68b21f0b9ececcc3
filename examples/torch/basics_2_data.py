"""Learn the basics, 2: data. A data set of one's own, split in two, and loaded in shuffled batches."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split


class Digits(Dataset):
    """Scikit-learn's images of digits, 8 x 8 pixels."""

    def __init__(self, transform=None):
        digits = load_digits()
        self.images, self.labels, self.transform = digits.images, digits.target, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, k):
        image = torch.tensor(self.images[k], dtype=torch.float32)
        return (self.transform(image) if self.transform else image), int(self.labels[k])


dataset = Digits(transform=lambda image: image / 16)
image, label = dataset[3]
print(len(dataset), image.shape, image.dtype, label)
for row in image:
    print("".join(" .:-=+*#%@"[int(9 * v)] for v in row))

train, test = random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(42))
print(len(train), len(test), test.indices[:8])

# The same seed gives the same order.
torch.manual_seed(0)
loader = DataLoader(train, batch_size=64, shuffle=True)
images, labels = next(iter(loader))
print(len(loader), images.shape, labels.dtype, labels[:10].tolist())
counts = sum(torch.bincount(batch, minlength=10) for _, batch in loader)
print("Examples of each digit:", counts.tolist())

# Tensors can be a data set as they are; a dictionary is collated key by key.
pairs = TensorDataset(torch.arange(6.0), torch.arange(6) ** 2)
for x, y in DataLoader(Subset(pairs, [5, 3, 1, 0]), batch_size=3):
    print(x, y)
print(next(iter(DataLoader([{"name": "a", "value": 1}, {"name": "b", "value": 2}], batch_size=2))))
