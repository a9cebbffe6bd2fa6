"""Pictures and report of the study, from the records that scripts/reproduce made.

Usage: python3 scripts/study --records DIR --measured FILE.csv --output DIR [--only FIGURE...]
"""
import argparse
import os
import sys

try:
    import curves
    import overview
    import ratios
    import report
    import runs
    import traces
except ImportError as error:
    sys.exit(f"scripts/study: {error}: install python3-matplotlib (run by /usr/bin/python3 -s)")


def draw(figure, predicted, measured, records, output):
    if figure in overview.FIGURES:
        return overview.draw(figure, records, output)
    for table, function in ((curves.SCALING, curves.draw_scaling), (curves.BATCHES, curves.draw_batches),
                            (curves.MODEL_SIZES, curves.draw_model_sizes), (ratios.RATIOS, ratios.draw_ratios),
                            (ratios.WINNERS, ratios.draw_winners)):
        if figure in table:
            return function(figure, predicted, measured, output)
    return traces.draw_trace(figure, predicted, records, output)


def main():
    parser = argparse.ArgumentParser(prog="scripts/study", description="Pictures and report of the study.")
    parser.add_argument("--records", required=True, help="folder of *.jsonl, and of *.trace")
    parser.add_argument("--measured", required=True, help="the authors' measurements, results/study/measured.csv")
    parser.add_argument("--output", required=True, help="folder for pictures, predictions.csv and REPORT.md")
    parser.add_argument("--only", nargs="*", metavar="FIGURE", help="draw these figures only (figure_03), and write no report")
    arguments = parser.parse_args()
    predicted, provenance = runs.read_predictions(arguments.records)
    measured = runs.read_measured(arguments.measured)
    os.makedirs(arguments.output, exist_ok=True)
    unknown = set(arguments.only or []) - set(report.FIGURES)
    if unknown:
        parser.error(f"no figure {sorted(unknown)[0]}; there are {', '.join(report.FIGURES)}")
    there = overview.available(arguments.records)
    figures = [figure for figure in arguments.only or report.FIGURES if figure in there or runs.of_figure(predicted, figure)]
    for figure in figures:
        draw(figure, predicted, measured, arguments.records, arguments.output)
        print(f"{figure} drawn", file=sys.stderr, flush=True)
    if arguments.only:
        return
    report.write_predictions(os.path.join(arguments.output, "predictions.csv"), predicted)
    found = report.write(os.path.join(arguments.output, "REPORT.md"), figures, predicted, measured, provenance, arguments.records)
    for finding in found:
        print(f"{finding.name:4} {finding.verdict:15} measurements: {finding.data}")


if __name__ == "__main__":
    main()
