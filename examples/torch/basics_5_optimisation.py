"""Learn the basics, 5: optimisation. A training loop on scikit-learn's digits, with a learning rate that falls."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
digits = load_digits()
dataset = TensorDataset(torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target))
train, test = random_split(dataset, [1437, 360])
train_loader, test_loader = DataLoader(train, batch_size=64, shuffle=True), DataLoader(test, batch_size=360)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)


def train_epoch():
    model.train()
    total = 0.0
    for images, labels in train_loader:
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item() * len(labels)
    return total / len(train)


def evaluate():
    model.eval()
    with torch.no_grad():
        images, labels = next(iter(test_loader))
        logits = model(images)
        return loss_fn(logits, labels).item(), (logits.argmax(1) == labels).float().mean().item()


for epoch in range(1, 9):
    rate = scheduler.get_last_lr()[0]
    train_loss = train_epoch()
    test_loss, accuracy = evaluate()
    scheduler.step()
    print(f"epoch {epoch} of 8 done", file=sys.stderr)
    print(f"epoch {epoch}  rate {rate:.3f}  train loss {train_loss:.3f}  test loss {test_loss:.3f}  accuracy {accuracy:.1%}")
