"""Speed, as ratios within one run: this machine's seconds mean little, their ratios mean something."""
