"""Write a tiny CLIP, text tower and tokenizer too, which infinity-emb asks for. `clip_checkpoint.py FOLDER`."""

import json
import sys
from pathlib import Path

import torch
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

_TOWER = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    config = CLIPConfig(
        text_config={
            **_TOWER,
            "vocab_size": len(words),
            "eos_token_id": len(words) - 1,
            "bos_token_id": len(words) - 2,
        },
        vision_config={**_TOWER, "patch_size": 16, "image_size": 224},
        projection_dim=64,
    )
    CLIPModel(config).save_pretrained(folder)
    tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77)
    CLIPProcessor(CLIPImageProcessor(), tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main()
