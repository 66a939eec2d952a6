"""The encoder server: a front that admits, checks and delivers, and engines that encode."""
