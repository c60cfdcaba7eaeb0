"""Our tap names and TransformerLens's, for who comes from there.

The tensors have the same values, in TransformerLens's `TransformerBridge` without folding or centring, for pre-norm models
with learned positions (GPT-2). Three things differ. Heads: ours are (B, H, T, K), theirs (B, T, H, K), for q, k, v and z.
Scores: ours are before the mask, theirs hold −inf where the mask hides the key. And `embed`, which is what enters the
first block, has no name of its own there.

With rotary positions, our `attn.q` and `attn.k` are after the rotation, and a gated MLP's parts are named otherwise there;
a post-norm block's stream is cut elsewhere. So the table is for the kind of model named above.
"""

BLOCK = {
    "resid_pre": "hook_resid_pre",
    "ln1": "ln1.hook_out",
    "attn.q": "attn.hook_q",
    "attn.k": "attn.hook_k",
    "attn.v": "attn.hook_v",
    "attn.scores": "attn.hook_attn_scores",
    "attn.pattern": "attn.hook_pattern",
    "attn.z": "attn.hook_z",
    "attn.out": "hook_attn_out",
    "resid_mid": "hook_resid_mid",
    "ln2": "ln2.hook_out",
    "mlp.pre": "mlp.hook_pre",
    "mlp.post": "mlp.hook_post",
    "mlp.out": "hook_mlp_out",
    "resid_post": "hook_resid_post",
}  # within `blocks.N.`
TRANSFORMER_LENS = {
    "tok_embed": "hook_embed",
    "pos_embed": "hook_pos_embed",
    "embed": "blocks.0.hook_resid_pre",
    "ln_f": "ln_final.hook_out",
    "logits": "unembed.hook_out",
}


def transformer_lens(tap: str) -> str | None:
    """What TransformerLens calls it; None if it has no name there.

    >>> transformer_lens("blocks.5.attn.pattern"), transformer_lens("embed"), transformer_lens("head.transform")
    ('blocks.5.attn.hook_pattern', 'blocks.0.hook_resid_pre', None)
    """
    if not tap.startswith("blocks."):
        return TRANSFORMER_LENS.get(tap)
    blocks, layer, part = tap.split(".", 2)
    return f"{blocks}.{layer}.{BLOCK[part]}" if part in BLOCK else None
