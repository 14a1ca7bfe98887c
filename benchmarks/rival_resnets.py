"""torchvision's ResNet-18 and 50 with its names, for the rivals of benchmarks/train/run and scripts/gpu-check: with the stem
for small pictures too, and without the need for its package."""
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    expansion = 1

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample(channels_in, channels, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return F.relu(y, inplace=True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels_in, inner, stride):
        super().__init__()
        channels = self.expansion * inner
        self.conv1, self.bn1 = nn.Conv2d(channels_in, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.downsample = downsample(channels_in, channels, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return F.relu(y, inplace=True)


def downsample(channels_in, channels, stride):
    if stride == 1 and channels_in == channels:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))


KINDS = {"resnet18": (Block, (2, 2, 2, 2)), "resnet50": (Bottleneck, (3, 4, 6, 3))}


class ResNet(nn.Module):
    """`stem` is as in Muster's recipes: imagenet, or small, for 32x32 pictures and below."""

    def __init__(self, kind, channels, width, classes, stem):
        super().__init__()
        block, counts = KINDS[kind]
        self.small = stem == "small"
        self.conv1 = (nn.Conv2d(channels, width, 3, 1, 1, bias=False) if self.small else
                      nn.Conv2d(channels, width, 7, 2, 3, bias=False))
        self.bn1, before = nn.BatchNorm2d(width), width
        for stage, count in enumerate(counts):
            blocks = []
            for index in range(count):
                blocks.append(block(before, width << stage, 2 if stage and index == 0 else 1))
                before = block.expansion * (width << stage)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
