"""What is checked before and after the libraries read a model: files, config, weights, tokenizer.

The folder of a model is data that anybody may have written. Nothing here runs code of a model.
"""
