"""Images: HarsanyiCNN, whose players are the cells of a map, and the classifier around it. Needs torch.

conv_blocks: stems and convolutional blocks. cnn: HarsanyiCNN. backbone: a frozen pretrained stem and its maps on disk.
image_estimator: HarsanyiImageClassifier. official: what the authors' code saved, images or not. Sets of pictures are in
`datasets`, and maps are drawn in `plots`.
"""

from harsanyinet.extras import need_torch

need_torch()
