"""The EncoderPool operator: spec, plan, apply, observe, judge, cordon, status."""
