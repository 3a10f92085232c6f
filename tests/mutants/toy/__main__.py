"""Run the mutants of the toy rule; prints which survive."""

import json

from tests.mutants.mutating import in_source, module_numbers
from tests.mutants.running import Runner, session
from tests.mutants.targets import Package
from tests.mutants.toy import formulas

package = Package([formulas])
targets = list(package.targets.values())
mutants = [mutant for target in targets for mutant in in_source(package, target)]
mutants += module_numbers(package, targets)
runner = Runner(package, targets, mutants)
session(runner, [str(formulas.__file__).replace("formulas", "formula_tests")])
verdicts = {verdict.mutant: verdict.killed_by for verdict in runner.verdicts}
print(json.dumps(verdicts))  # noqa: T201 - for the test that runs this
