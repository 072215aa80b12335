"""Other people's tools, one module each, none imported before it is asked for (docs/interop.md):

onnx     policy and cost as ONNX graphs                                            extra `onnx`
torch    policy and cost as torch modules, and their state dicts                   extra `sb3`
sb3      Stable-Baselines3: its agents as experts, our policies as its models      extra `sb3`
minari   demonstrations from and to Minari datasets                                extra `minari`
pickles  demonstrations out of old pickle files, without running them
"""
