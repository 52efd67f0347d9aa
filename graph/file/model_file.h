// Model files (`.lathe`): a graph with its constants, programs lowered from it, and what calibration and self-checks need.
// docs/format.md.
//
// Who calls it: verbs and tests. Reading maps the file: constants of a graph that lie in canonical form, and everything a program
// reads, are views into the mapping, which lives as long as any of them. Errors name the file. Thread-safe: no state.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "graph/lower/lower.h"
#include "runtime/host/session.h"

namespace lathe {

// What calibration saw of one value.
struct ObservedValue {
  std::string name;            // of the graph's value
  float lo = 0, hi = 0;        // the range that was chosen
  std::vector<uint16_t> bins;  // at most kMaxCalibBins counts over [lo, hi], scaled so that the largest is 65535
  std::string observer;
};
inline constexpr size_t kMaxCalibBins = 64;

// A dense tensor of a self-check.
struct TestArray {
  DType dtype = DType::kF32;
  std::vector<int32_t> dims;
  std::vector<uint8_t> data;
};
struct SelfCheck {
  std::vector<TestArray> inputs, outputs;  // by port
};

struct WriteOptions {
  std::vector<Target> targets;  // one PLAN each; none: constants stay canonical and hosts lower on the way
  std::vector<ObservedValue> calib;
  std::vector<SelfCheck> tests;
  SparseWeights sparse = SparseWeights::kAuto;
  bool strip = false;  // only what running needs: PLAN, WEIGHTS, and in META the names of inputs and outputs. Needs a target
};

// Writes the file whole or not at all. Errors: those of verify(), lowering and the operating system.
Result<void> write_model(const std::string& path, const Graph& graph, const WriteOptions& options = {});
// The file's bytes, for tests and embedding.
Result<std::vector<uint8_t>> model_bytes(const Graph& graph, const WriteOptions& options = {});

struct ModelFile {
  Graph graph;
  std::vector<ObservedValue> calib;
  std::vector<SelfCheck> tests;
  std::vector<uint32_t> plan_targets;  // of the PLAN sections
  std::string writer;                  // the tool that wrote it
};

// Bytes on a 64-byte boundary and what keeps them alive.
struct FileBytes {
  std::shared_ptr<const void> owner;
  Bytes bytes;
};
Result<FileBytes> map_file(const std::string& path);

// The graph and its companions. Errors: kCorrupt, kVersion, kUnsupported (a stripped file has no graph).
Result<ModelFile> read_model(const std::string& path);
Result<ModelFile> read_model(const FileBytes& file);

// Graph::metadata alone, which stripped files have too.
Result<std::map<std::string, std::string>> read_metadata(const std::string& path);

// A program for this host: the file's own if it has one that this build can run, without copying anything; else the graph is
// lowered.
Result<std::shared_ptr<const LoadedProgram>> open_program(const std::string& path);
Result<std::shared_ptr<const LoadedProgram>> open_program(const FileBytes& file);

// Everything that loading does not verify: section checksums, the hash of every constant, graph and programs. The error says what
// is wrong first.
Result<void> check_model_file(const std::string& path);
Result<void> check_model_file(const FileBytes& file);

}  // namespace lathe
