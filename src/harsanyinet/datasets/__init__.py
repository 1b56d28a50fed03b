"""Datasets: tables and pictures to try things on, looked for, fetched and checked; games with known answers. No model.

fetching: where files are looked for. table_sets: Census, Yeast, TV news, California, bike and others. picture_sets:
MNIST, CIFAR-10, digits. picture_files: pictures of one's own. synthetic: games. A user's own table files are read in
`batch`.
"""

from harsanyinet.datasets.fetching import DatasetDamagedError, DatasetNotFoundError
from harsanyinet.datasets.picture_files import read_folder, read_pictures
from harsanyinet.datasets.picture_sets import ImageSplit, load_cifar10, load_digit_images, load_mnist
from harsanyinet.datasets.synthetic import unanimity_game
from harsanyinet.datasets.table_sets import (
    Table,
    TableSplit,
    load_bike,
    load_breast_cancer_table,
    load_california,
    load_census,
    load_digits_table,
    load_tv_news,
    load_yeast,
)

__all__ = [
    "DatasetDamagedError",
    "DatasetNotFoundError",
    "ImageSplit",
    "Table",
    "TableSplit",
    "load_bike",
    "load_breast_cancer_table",
    "load_california",
    "load_census",
    "load_cifar10",
    "load_digit_images",
    "load_digits_table",
    "load_mnist",
    "load_tv_news",
    "load_yeast",
    "read_folder",
    "read_pictures",
    "unanimity_game",
]
