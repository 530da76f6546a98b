"""Whether a PromQL expression fits what is exported: its metrics, and the labels that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Set

import promql_parser
from promql_parser import AggModifierType, LabelModifierType, VectorMatchCardinality

#: By metric, the labels that its series have in Prometheus.
Exported = Mapping[str, Set[str]]
#: Of a vector's series; None: the expression is a scalar or a text.
Labels = Set[str] | None

_NO_LABELS: Set[str] = frozenset()


class NotExportedError(AssertionError):
    """An expression uses what nobody exports."""


def labels_of(text: str, exported: Exported) -> Labels:
    """The labels that the expression's series can have.

    NotExportedError: a metric is not there, has no series with a label that a matcher, an
    aggregation or a join names, or two sides of an operator have labels that never match.
    NotImplementedError: this does not know the function or the join. ValueError: not PromQL.
    """
    return _labels(promql_parser.parse(text), exported)


def _labels(expr: promql_parser.Expr, exported: Exported) -> Labels:  # noqa: PLR0911
    match expr:
        case promql_parser.VectorSelector():
            return _selected(expr, exported)
        case promql_parser.MatrixSelector():
            return _selected(expr.vector_selector, exported)
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
            return _labels(expr.expr, exported)
        case promql_parser.AggregateExpr():
            return _aggregated(expr, exported)
        case promql_parser.BinaryExpr():
            return _joined(expr, exported)
        case promql_parser.Call():
            return _called(expr, exported)
    assert isinstance(expr, promql_parser.NumberLiteral | promql_parser.StringLiteral), expr
    return None


def _selected(expr: promql_parser.VectorSelector, exported: Exported) -> Labels:
    if expr.name not in exported:
        raise NotExportedError(f"nobody exports {expr.name}, as in {expr}")
    labels = exported[expr.name]
    _require({matcher.name for matcher in expr.matchers.matchers}, labels, expr)
    return labels


def _aggregated(expr: promql_parser.AggregateExpr, exported: Exported) -> Labels:
    inner, modifier = _labels(expr.expr, exported) or _NO_LABELS, expr.modifier
    if modifier is None:
        return _NO_LABELS
    named = set(modifier.labels)
    _require(named, inner, expr)
    return named if modifier.type == AggModifierType.By else inner - named


def _joined(expr: promql_parser.BinaryExpr, exported: Exported) -> Labels:
    left, right = _labels(expr.lhs, exported), _labels(expr.rhs, exported)
    if left is None or right is None:
        return right if left is None else left
    operator, modifier = str(expr.op), expr.modifier
    if operator == "or":
        return left | right
    matching = modifier and modifier.matching
    if matching is None:
        if left != right:
            raise NotExportedError(f"{sorted(left)} never match {sorted(right)} in {expr}")
        return left
    named = set(matching.labels)
    _require(named, left & right, expr)
    if operator in ("and", "unless"):
        return left
    if modifier.card != VectorMatchCardinality.OneToOne:
        raise NotImplementedError(f"group_left or group_right in {expr}")
    return named if matching.type == LabelModifierType.Include else left - named


def _called(expr: promql_parser.Call, exported: Exported) -> Labels:
    arguments = [_labels(argument, exported) for argument in expr.args]
    match expr.func.name:
        case "scalar" | "time":
            return None
        case "vector":
            return _NO_LABELS
        case "histogram_quantile":
            inner = arguments[1] or _NO_LABELS
            _require({"le"}, inner, expr)
            return inner - {"le"}
        case "label_replace" | "label_join" | "absent" | "absent_over_time" as name:
            raise NotImplementedError(f"{name} in {expr}")
    vectors = [labels for labels in arguments if labels is not None]
    return vectors[0] if vectors else None


def _require(named: Set[str], labels: Set[str], expr: promql_parser.Expr) -> None:
    if not named <= labels:
        raise NotExportedError(f"no label {sorted(named - labels)} in {expr}")
