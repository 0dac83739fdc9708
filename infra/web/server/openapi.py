"""The OpenAPI document of pages and actions. Pure."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import re
import typing
from typing import Any

from ..actions.action import Action, ActionPreview, ActionResult
from ..actions.registry import ACTIONS
from ..faults import ErrorResponse
from ..json_schemas import Json, JsonSchemas
from ..views.page import PageDefinition, QueryParameter
from ..views.pages import DOWNLOADS, PAGES
from .urls import GROUP, GROUP_IN_PATH

_TOKEN: Json = {"name": "X-Form-Token", "in": "header", "required": True, "schema": {"type": "string"}}


@functools.cache
def openapi() -> Json:
    schemas = JsonSchemas()
    failed = _failures(schemas.of(ErrorResponse))
    paths: Json = {}
    for page in PAGES:
        paths[f"/api/l/{{lake}}{_path(page.path)}"] = {"get": _of_page(page, schemas, failed)}
        if page.begin is not None:
            paths[f"/api/l/{{lake}}{_path(page.path)}"]["post"] = _beginning(page, failed)
    for file in DOWNLOADS:
        names = [_name_in_path(name) for name in ("lake", *file.names)]
        given = {"description": file.about, "content": {"application/octet-stream": {}}}
        paths[f"/files/l/{{lake}}{_path(file.path)}"] = {
            "get": {
                "operationId": file.name,
                "summary": file.about,
                "parameters": [*names, *map(_parameter, file.parameters)],
                "responses": {"200": given, **failed},
            }
        }
    for action in ACTIONS.values():
        paths[f"/api/l/{{lake}}/actions/{action.name}"] = _of_action(action, schemas, failed)
        paths[f"/api/l/{{lake}}/actions/{action.name}/preview"] = _preview_by_body(action, schemas, failed)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock console", "version": importlib.metadata.version("penstock")},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.components.items()))},
    }


def _of_page(page: PageDefinition[Any], schemas: JsonSchemas, failed: dict[str, Json]) -> Json:
    names = [_name_in_path("lake"), *map(_name_in_path, page.names)]
    return {
        "operationId": page.name,
        "summary": page.about,
        "parameters": [*names, *map(_parameter, page.parameters)],
        "responses": {"200": _answer(page.about, schemas.of(page.shows)), **failed},
    }


def _beginning(page: PageDefinition[Any], failed: dict[str, Json]) -> Json:
    return {
        "operationId": f"begin_{page.name}",
        "summary": "Begins it, for operators. The answer leads to its outcome.",
        "parameters": [_name_in_path("lake"), *map(_name_in_path, page.names), _TOKEN],
        "responses": {"303": {"description": "It was begun, or one runs or just ended"}, **failed},
    }


def _of_action(action: Action[Any], schemas: JsonSchemas, failed: dict[str, Json]) -> Json:
    hints = typing.get_type_hints(action.arguments)
    arguments = [
        {
            "name": field.name,
            "in": "query",
            "required": field.default is dataclasses.MISSING,
            "schema": schemas.of(hints[field.name]),
        }
        for field in dataclasses.fields(action.arguments)
    ]
    parameters = [_name_in_path("lake"), *arguments]
    confirmed = {
        "type": "object",
        "properties": {"stamp": {"type": "string"}, "typed": {"type": "string"}},
        "additionalProperties": {"type": "string", "description": "An argument, if it is not in the query"},
        "required": ["stamp"],
    }
    return {
        "get": {
            "operationId": f"preview_{action.name}",
            "summary": f"What it would do. {action.about}",
            "parameters": parameters,
            "responses": {"200": _answer("The preview", schemas.of(ActionPreview)), **failed},
        },
        "post": {
            "operationId": action.name,
            "summary": action.about,
            "parameters": [*parameters, _TOKEN],
            "requestBody": {"required": True, "content": {"application/json": {"schema": confirmed}}},
            "responses": {"200": _answer("What was done", schemas.of(ActionResult)), **failed},
        },
    }


def _preview_by_body(action: Action[Any], schemas: JsonSchemas, failed: dict[str, Json]) -> Json:
    """The same preview, with arguments that are too long for a URL."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    return {
        "post": {
            "operationId": f"preview_{action.name}_by_body",
            "summary": f"What it would do, with its arguments in the body. {action.about}",
            "parameters": [_name_in_path("lake"), _TOKEN],
            "requestBody": {"required": True, "content": {"application/json": {"schema": texts}}},
            "responses": {"200": _answer("The preview", schemas.of(ActionPreview)), **failed},
        },
    }


def _path(path: str) -> str:
    return re.sub(r"\{(\w+):path\}", r"{\1}", path)


def _name_in_path(name: str) -> Json:
    about = {"description": GROUP_IN_PATH} if name == GROUP else {}
    return {"name": name, "in": "path", "required": True, **about, "schema": {"type": "string"}}


def _parameter(one: QueryParameter) -> Json:
    return {"name": one.name, "in": "query", "description": one.help, "schema": one.schema}


def _failures(problem: Json) -> dict[str, Json]:
    """Answers to failed requests. A failed part is in the page."""
    statuses = {
        "400": "The request asks for what cannot be: a parameter that is out of range, a condition that cannot be read",
        "401": "Log in first",
        "403": "The caller may not do this",
        "404": "What the request names is not there",
        "default": "What went wrong, and what to do",
    }
    return {status: _answer(about, problem) for status, about in statuses.items()}


def _answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
