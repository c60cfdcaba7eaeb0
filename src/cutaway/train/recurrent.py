"""The baseline that reads one token after another: an LSTM with as many parameters as nano-gpt2, in the same training.

It is scored and not shipped.
"""

from torch import Tensor, nn

from cutaway.core.config import Config

HIDDEN, LAYERS = 320, 2  # with these it has nano-gpt2's number of parameters within 1 %


class Recurrent(nn.Module):
    """Token ids in, logits of the next token out; the output matrix is the embedding, as in nano-gpt2."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.lstm = nn.LSTM(config.width, HIDDEN, LAYERS, batch_first=True)
        self.out = nn.Linear(HIDDEN, config.width)

    def forward(self, ids: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of ids (B, T). Padding stands on the right, behind all that is read, so lengths change nothing."""
        states, _ = self.lstm(self.embed(ids))  # (B, T, HIDDEN)
        return nn.functional.linear(self.out(states), self.embed.weight)
