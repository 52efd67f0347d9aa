// Report pages: what they say, that they load nothing, and how a browser lays them out on a narrow screen.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "tools/cli_checks.h"

using namespace lathe;
using namespace lathe::test;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// A page with every section.
const std::string& full_page() {
  static const TempFolder folder;
  static const std::string text = [] {
    const auto study = run_lathe({"sensitivity", kModel, "--data", kData, "--samples", "64", "--limit", "40", "--json"});
    REQUIRE_MESSAGE(study.status == 0, study.err);
    spill(folder.file("study.json"), study.out);
    const auto r = run_lathe({"report", int8_model(), "--baseline", kModel, "--data", kData, "--limit", "300", "--noise-samples", "8",
                              "--sensitivity", folder.file("study.json"), "--seconds", "0.02", "-o", folder.file("report.html")});
    REQUIRE_MESSAGE(r.status == 0, r.err);
    return slurp(folder.file("report.html"));
  }();
  return text;
}

// What the browser's document has as its title after `script` ran in the page; empty without a browser.
std::string in_browser(const std::string& page, const std::string& script, const std::string& flags = "") {
  const TempFolder folder;
  std::string scripted = page;
  scripted.insert(scripted.find("</body>"), "<script>document.title = String((() => {" + script + "})());</script>");
  spill(folder.file("page.html"), scripted);
  const std::string command = "chromium --headless --no-sandbox --disable-gpu " + flags + " --user-data-dir=" + folder.file("profile") +
                              " --dump-dom file://" + folder.file("page.html") + " >" + folder.file("dom") + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) return "";
  const std::string dom = slurp(folder.file("dom"));
  const size_t begin = dom.find("<title>") + 7;
  return dom.substr(begin, dom.find("</title>") - begin);
}

}  // namespace

TEST_CASE("a report has every section, beside the baseline, and loads nothing") {
  const std::string& page = full_page();
  for (const char* id : {"size", "accuracy", "precision", "layers", "sensitivity", "calibration", "lineage"})
    CHECK_MESSAGE(count(page, "<section id=\"" + std::string(id) + "\"") == 1, id);
  for (const char* loads : {"<script", "src=", "href=", "url(", "@import", "http"}) CHECK_MESSAGE(count(page, loads) == 0, loads);
  CHECK(page.find("0.32 times 319.1 KB") != std::string::npos);
  CHECK(page.find("INT8: 14 steps") != std::string::npos);
  CHECK(page.find("FP32: 1 step,") != std::string::npos);
  CHECK(count(page, " dB") >= 22);  // of 13 layers, twice: measured together and alone
  CHECK(page.find("of 64 bins used") != std::string::npos);
}

TEST_CASE("a report of one model leaves out what it does not know, and bad input is refused") {
  const TempFolder folder;
  const auto r = run_lathe({"report", kModel, "--seconds", "0.02", "-o", folder.file("r.html")});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  const std::string page = slurp(folder.file("r.html"));
  CHECK(count(page, "<section") == 4);  // size, precision, layers, lineage
  CHECK(count(page, " times ") == 0);
  CHECK(count(page, " dB") == 0);
  spill(folder.file("list.json"), "[1, 2]");
  spill(folder.file("nameless.json"), "{\"layers\": [{\"keep\": true}]}");
  check_refused(run_lathe({"report", kModel, "--sensitivity", folder.file("list.json"), "-o", folder.file("x.html")}),
                {"list.json", "no list 'layers'"});
  check_refused(run_lathe({"report", kModel, "--sensitivity", folder.file("nameless.json"), "-o", folder.file("x.html")}),
                {"nameless.json", "a layer without a name"});
  check_refused(run_lathe({"report", kModel, "--baseline", folder.file("none.onnx"), "-o", folder.file("x.html")}), {"none.onnx"});
  CHECK(!std::filesystem::exists(folder.file("x.html")));
}

TEST_CASE("names from a model cannot become markup") {
  const TempFolder folder;
  spill(folder.file("study.json"), "{\"layers\": [{\"layer\": \"<b onclick='x'>&\", \"keep\": false}]}");
  const auto r = run_lathe({"report", kModel, "--sensitivity", folder.file("study.json"), "--seconds", "0.02", "-o", folder.file("r.html")});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  const std::string page = slurp(folder.file("r.html"));
  CHECK(page.find("<b onclick") == std::string::npos);
  CHECK(page.find("&lt;b onclick") != std::string::npos);
}

TEST_CASE("a browser shows the report on a narrow screen and in dark mode") {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0) {
    MESSAGE("skipped, no browser (Debian's chromium)");
    return;
  }
  // Nothing is wider than a phone, and every picture has a size.
  const std::string narrow = in_browser(full_page(),
                                        "document.body.style.width = '360px'; const all = [...document.querySelectorAll('svg')];"
                                        "const wide = [...document.body.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right -"
                                        " document.body.getBoundingClientRect().left > 361 && !e.closest('svg'));"
                                        "const flat = all.filter(e => !e.closest('details') && (e.clientHeight < 5 || e.clientWidth < 100));"
                                        "return wide.length + ' wide, ' + flat.length + ' flat, ' + (all.length > 30);");
  CHECK(narrow == "0 wide, 0 flat, true");
  const char* colours = "const s = getComputedStyle(document.body); return s.backgroundColor + ' ' + s.color;";
  CHECK(in_browser(full_page(), colours, "--blink-settings=preferredColorScheme=1") == "rgb(255, 255, 255) rgb(28, 30, 33)");
  CHECK(in_browser(full_page(), colours, "--blink-settings=preferredColorScheme=0") == "rgb(22, 24, 27) rgb(232, 234, 237)");
}
