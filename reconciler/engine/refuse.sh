fail 1 Transient "refused: the model name or the directory of the store is not safe to use"
