"""Serving: fitted models where they are used, each part an extra. Nothing is learned here, and no table is read.

export: `to_onnx`, any model as one ONNX file that predicts and explains. onnx_graphs: what such a file is made of.
table_graphs, merged_tables: models of tables in it. network_graphs: networks. predictor: models of tables with numpy
and nothing else. mlflow_models: MLflow.
"""
