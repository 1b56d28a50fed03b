"""Checkpoints: an interrupted training goes on to the same bits, and a file of another training is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from trained_modules import linear_data, noisy_network, same_bits, squared

from harsanyinet.training import TrainingConfig, fit_module

CONFIG = TrainingConfig(epochs=5, batch_size=32, validation_share=0.2, learning_rate=0.01)


def train(checkpoint=None, *, stop_after: int | None = None, seed: int = 3, config: TrainingConfig = CONFIG):
    torch.manual_seed(0)
    module, (x, y) = noisy_network(), linear_data()

    def stop(epoch: int, module: nn.Module) -> None:
        if epoch == stop_after:
            raise KeyboardInterrupt

    history = fit_module(
        module, x, y, loss=squared, config=config, seed=seed, checkpoint=checkpoint, progress=False, on_epoch=stop
    )
    return module, history


@pytest.mark.parametrize("stop_after", [0, 2, 4])
def test_an_interrupted_training_goes_on_to_the_same_bits(stop_after, tmp_path):
    whole, history = train()
    path = tmp_path / "training.pt"
    with pytest.raises(KeyboardInterrupt):
        train(path, stop_after=stop_after)
    again, continued = train(path)
    assert same_bits(whole, again)
    assert (continued.train_loss, continued.best_epoch) == (history.train_loss, history.best_epoch)


def test_a_file_of_another_training_is_refused(tmp_path):
    path = tmp_path / "training.pt"
    train(path)
    with pytest.raises(ValueError, match=r"checkpoint must belong to this training .*seed=4.* however: .*seed=3"):
        train(path, seed=4)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint must be one that this training wrote, however: .* delete it"):
        train(path)
