"""Every path of this package."""

from __future__ import annotations

from typing import Any

from tornado.routing import URLSpec
from tornado.web import RequestHandler

from codebox_server.http import (
    checkpoint,
    commands,
    contexts,
    executions,
    file_operations,
    file_search,
    file_watch,
    files,
    notebooks,
    packages,
    run_socket,
    stats,
    system,
    terminals,
    tunnel,
    variables,
)

_ID = r"([^/]+)"


def routes(arguments: dict[str, Any]) -> list[URLSpec]:
    """Return URL rules with their handlers; they precede Jupyter's own. The handlers get the arguments: `box`."""
    # They are tried one after the other: the most frequent one is first.
    paths: list[tuple[str, type[RequestHandler]]] = [
        (rf"/codebox/executions/{_ID}", executions.ExecutionHandler),
        (r"/codebox/runs", run_socket.RunSocketHandler),
        (r"/codebox/executions", executions.ExecutionsHandler),
        (rf"/codebox/executions/{_ID}/events", executions.ExecutionEventsHandler),
        (rf"/codebox/executions/{_ID}/input", executions.ExecutionInputHandler),
        (rf"/codebox/executions/{_ID}/interrupt", executions.ExecutionInterruptHandler),
        (r"/codebox/health", system.HealthHandler),
        (r"/codebox/contents", system.ContentsHandler),
        (r"/codebox/warm", system.WarmHandler),
        (r"/codebox/bind", system.BindHandler),
        (r"/codebox/network", system.NetworkHandler),
        (r"/codebox/stop", system.StopHandler),
        (r"/codebox/seal", system.SealHandler),
        (r"/codebox/checkpoint", checkpoint.CheckpointHandler),
        (r"/codebox/stats", stats.StatsHandler),
        (r"/codebox/contexts", contexts.ContextsHandler),
        (rf"/codebox/contexts/{_ID}/restart", contexts.ContextRestartHandler),
        (rf"/codebox/contexts/{_ID}/variables", contexts.VariablesHandler),
        (r"/codebox/variables", variables.SavedVariablesHandler),
        (r"/codebox/commands", commands.CommandsHandler),
        (rf"/codebox/commands/{_ID}", commands.CommandHandler),
        (rf"/codebox/commands/{_ID}/events", commands.CommandEventsHandler),
        (rf"/codebox/commands/{_ID}/input", commands.CommandInputHandler),
        (r"/codebox/packages", packages.PackagesHandler),
        (rf"/codebox/packages/{_ID}", packages.InstallationHandler),
        (r"/codebox/notebook", notebooks.NotebookHandler),
        (rf"/codebox/notebooks/{_ID}", notebooks.NotebookRunHandler),
        (r"/codebox/files", file_operations.FileOperationsHandler),
        (r"/codebox/terminals", terminals.TerminalsHandler),
        (rf"/codebox/terminals/{_ID}", terminals.TerminalHandler),
        (rf"/codebox/terminals/{_ID}/socket", terminals.TerminalSocketHandler),
        (r"/codebox/files:search", file_search.FileSearchHandler),
        (r"/codebox/files:watch", file_watch.FileWatchHandler),
        (r"/codebox/files/(.*)", files.FilesHandler),
        (r"/codebox/tunnel/(\d{1,5})", tunnel.TunnelHandler),
    ]
    return [URLSpec(path + "$", handler, arguments) for path, handler in paths]
