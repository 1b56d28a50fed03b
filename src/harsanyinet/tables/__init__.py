"""Tables: frames -> bins -> states of trees -> outputs, Shapley values, dividends. No torch; numba where rows are many.

frames, bins: what columns hold, and as small numbers. trees: the model as data, the oracle. kernels: compiled loops.
look_ups: tables over states, planned once. tree_games: what trees say about coalitions in three games. losses,
players, boosting, screening, rates, fitting: how trees are learned. estimators: the scikit-learn interface. effects:
what columns and pairs add, to be drawn.
"""
