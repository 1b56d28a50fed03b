"""Explanations: coalitions and dividends in, every answer out; and the certificate that they are right.

dividends: what an explanation asks of a model. explanation: the object that users hold. indices: Shapley values,
interactions and shares of groups, as weighted sums of dividends. answers: what is more than such a sum.
names: features and outputs, found by name. exports, named_interactions: shap, shapiq, frames, pages, files.
certificate: `verify`, by brute force. No model lives here and nothing is drawn; torch is never imported.
"""
