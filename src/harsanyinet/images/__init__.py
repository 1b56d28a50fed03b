"""Images: HarsanyiCNN, whose players are the cells of a map, and the classifier around it. Needs torch.

pixels: images before a network sees them. conv_blocks: stems and convolutional blocks. cells: neighbours, fields and
shares on a map. cnn, cnn_settings: HarsanyiCNN. backbone: a frozen pretrained stem; feature_files: its maps on disk.
image_estimator: HarsanyiImageClassifier. official: what the authors' code saved, images or not. Sets of pictures are in
`datasets`, and maps are drawn in `plots`.
"""

from harsanyinet.extras import need_torch

need_torch()
