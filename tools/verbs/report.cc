// lathe report: one HTML page about a model, alone or beside the one it was made from.
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "tools/model.h"
#include "tools/report/page.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  ReportRequest request;
  std::string output;
};

Result<void> run(const Options& o) {
  LATHE_CHECK_OK(check_writable(o.output));
  LATHE_TRY(const Report report, gather_report(o.request));
  const std::string page = report_page(report);
  LATHE_CHECK_OK(write_file_atomic(o.output, page));
  std::printf("wrote %s, %zu bytes; it opens in any browser and loads nothing\n", o.output.c_str(), page.size());
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  ReportRequest& r = o->request;
  args.option("model", r.model, ".lathe, .onnx or .tflite file").required();
  args.option("-o,--output", o->output, "HTML file to write").required();
  args.option("--baseline", r.baseline, "the model that it was made from: sizes, latency, accuracy and layers are set beside its");
  args.option("--data", r.data, "data set (TOML): accuracy by group on its split test, and with --baseline the noise of every layer");
  args.option("--metric", r.metric, "as of `lathe eval`").show_default();
  args.option("--limit", r.limit, "samples of the accuracy at most; 0: all").show_default();
  args.option("--noise-samples", r.noise_samples, "samples of the noise by layer").show_default().positive();
  args.option("--sensitivity", r.sensitivity, "file with what `lathe sensitivity --json` printed");
  args.option("--seconds", r.seconds, "how long to measure each model").show_default().range(0.01, 3600.0);
  r.session.add_to(args);
  r.import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_report{"report", "write a page about a model: size, latency, accuracy, layers, calibration",
                        "lathe report int8.lathe --baseline model.lathe --data set.toml -o report.html", setup};

}  // namespace lathe::tools
