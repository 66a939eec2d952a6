"""EfficientNet-Lite0 as an encoder of one's own: `encoder` is what is served, `checkpoint` writes its folder."""
