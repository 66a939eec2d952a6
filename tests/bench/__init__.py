"""What `make bench-server` runs: this server beside ceilings and peers, in ratios of the same run.

    scenarios ─► rounds (ceiling, ours, ceiling, ours, …) ─► statistics ─► report.json, report.md, plots
    growth, memory ──────────────────────────────────────────┘

Every side runs in processes of its own (`programs/`), which `processes` starts, pins and measures. No test asserts a
time: on a machine that others use the figures are only as good as the ratios' spread says.
"""
