"""Tests of the service that do not run behind the proxy, each with its reason.

`tests/service/behind_proxy.py` runs all others against three workers on PostgreSQL
behind the shipped proxy. An entry is a file, or a test in one. Tests compare the table
with what there is: an entry that names nothing fails, and so does a test that skips
there.
"""

from __future__ import annotations

#: Names the file in which the plugin says which tests there were, and which ran.
REPORT = "RETICENT_BEHIND_PROXY"
_NO_SERVICE = "looks at a part of the program; no service is asked"
_OWN = "starts a service of its own, with what the test is about: "
_INSIDE = "changes or watches the process that answers: "
_DEPLOYED = "runs there in test_deployed.py, on the one stack of that file"
_CLIENT = (
    "sends what httpx refuses to send over a network; test_connections.py sends it"
)

LEFT_OUT = {
    "test_access.py": _NO_SERVICE,
    "test_bodies.py": _NO_SERVICE,
    "test_key_records.py": _NO_SERVICE,
    "test_listeners.py": _NO_SERVICE,
    "test_settings.py": _NO_SERVICE,
    "test_left_out.py": "is about this table",
    "test_deployed.py": "is what runs this",
    "test_authorisation.py": _DEPLOYED,
    "test_replicas.py": _DEPLOYED,
    "test_sign_in.py": _OWN + "OpenID providers that lie; an honest one is there",
    "test_withdrawn_roles.py": _OWN + "a clock that the test moves",
    "test_browser.py": _OWN + "a browser on this machine, which refuses the test's TLS",
    "test_browser_pages.py": _OWN + "a browser, as test_browser.py",
    "test_connections.py": _OWN + "raw bytes, which the proxy would take itself",
    "test_hostile_crowd.py": _OWN + "raw connections, which the proxy would take",
    "test_consensus.py": _OWN + "a session, of which every worker has its own",
    "test_crashes.py": _OWN + "kills; test_deployed.py has its own hundred",
    "test_faults.py": _OWN + "a database that fails",
    "test_lasting.py": _OWN + "lasting models, whose state is read in the process",
    "test_lasting_faults.py": _OWN + "kills and faults",
    "test_limits.py": _INSIDE + "clocks, slots and buckets of one worker",
    "test_dashboard_promises.py": _INSIDE
    + "a clock that the test moves, and a ledger that it fills itself",
    "test_demo.py": _OWN + "the demo, which has no database",
    "test_inference.py": _OWN + "a Triton client, which has no key for the test's TLS",
    "test_neighbours.py": _INSIDE + "two services draw the same bits",
    "test_openapi.py": _INSIDE + "schemathesis asks the application itself",
    "test_otlp.py": _OWN + "a collector of spans",
    "test_reloading.py": _INSIDE + "models are replaced under one process",
    "test_rollback.py": _OWN + "old copies of a SQLite ledger",
    "test_serving.py": _OWN + "signals, overload, a full disk",
    "test_start_together.py": _OWN + "processes that start at the same moment",
    "test_startup.py": _OWN + "one that must refuse to start",
    "test_strangers.py": _INSIDE + "raw bytes, a clock, and the log of one process",
    "test_telemetry.py": _INSIDE + "log lines and metrics of one process",
    "test_traces.py": _INSIDE + "spans in memory",
    "test_tutorial.py": _OWN + "the commands of a page of the documentation",
    "test_workers.py": _OWN + "workers that die; test_deployed.py kills them too",
    # Tests of files that otherwise run.
    "test_admin.py::test_an_act_that_cannot_be_written_does_not_happen": _INSIDE
    + "the ledger refuses one write",
    "test_admin.py::test_revoking_what_is_not_there_is_404": "the proxy answers one of "
    "its addresses, %00, itself; test_key_records.py asks PostgreSQL for it",
    "test_dashboard.py::test_the_cookie_is_for_this_host_and_not_for_scripts": "the "
    "deployment always has cookies for HTTPS alone; one case wants others",
    "test_dashboard.py::test_forms_leave_no_value_in_the_log": _INSIDE + "its log",
    "test_dashboard.py::test_a_ledger_that_is_away_is_a_page": _INSIDE
    + "a ledger that fails",
    "test_predict.py::test_the_charge_is_durable_before_the_draw_and_the_answer_"
    "before_the_reply": _INSIDE + "the order of its calls",
    "test_predict.py::test_an_answer_that_cannot_be_stored_is_not_given": _INSIDE
    + "the ledger refuses one write",
    "test_problems.py::test_long_bodies_and_batches_are_refused": _CLIENT,
    "test_problems.py::test_idempotency_keys_of_another_form_are_refused": _CLIENT,
    "test_problems.py::test_a_failure_says_nothing_and_is_logged_without_values": (
        _INSIDE + "a model that fails"
    ),
    "test_problems.py::test_a_failure_before_the_routes_is_answered_too": _INSIDE
    + "a framework that fails",
    "test_problems.py::test_errors_of_the_ledger_are_503_without_its_message": _INSIDE
    + "a ledger that fails",
    "test_problems.py::test_security_headers_are_everywhere": "the proxy adds headers "
    "of its own, such as its name",
}


def entry_for(name: str) -> str | None:
    """Return the entry that leaves out ``file::test``, or None."""
    for entry in (name, name.split("::")[0]):
        if entry in LEFT_OUT:
            return entry
    return None
