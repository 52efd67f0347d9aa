// A compiled model file in memory around the network of sample_cnn.h.
#pragma once
#include <cstring>

#include "runtime/file.h"
#include "runtime/host/meta.h"
#include "tests/runtime/sample_cnn.h"

namespace lathe::test {

struct FileImage {
  Aligned<uint8_t> data;
  size_t size = 0;
};

// A compiled model file around a program, as graph/file/ writes them.
inline FileImage make_file(bool with_plan = true) {
  const BuiltProgram program = SampleCnn(true).build();
  Meta meta;
  PlanNames names;
  names.inputs = {"image"};
  names.outputs = {"scores"};
  meta.plans.push_back(names);
  const std::vector<uint8_t> meta_bytes = write_meta(meta);
  const uint8_t* parts[] = {meta_bytes.data(), program.weights.get(), program.plan().data};
  const uint64_t sizes[] = {meta_bytes.size(), program.weights_bytes, program.plan_bytes};
  const SectionKind kinds[] = {SectionKind::kMeta, SectionKind::kWeights, SectionKind::kPlan};

  const uint32_t count = with_plan ? 3 : 2;
  uint64_t at = 64 + 3 * sizeof(FileSection);
  FileSection sections[3] = {};
  for (uint32_t i = 0; i < count; ++i) {
    at = (at + 63) / 64 * 64;
    sections[i] = {kinds[i], 0, static_cast<uint32_t>(at / 64), 0, sizes[i], 0};
    at += sizes[i] + 64;
  }
  FileImage file;
  file.size = at;
  file.data = aligned_bytes(at);
  const FileHeader header{kFileMagic, kFileMajor, kFileMinor, at, count, sizeof(FileSection), 0, {}};
  std::memcpy(file.data.get(), &header, sizeof header);
  std::memcpy(file.data.get() + sizeof header, sections, count * sizeof(FileSection));
  for (uint32_t i = 0; i < count; ++i) std::memcpy(file.data.get() + sections[i].offset_units * 64ull, parts[i], sizes[i]);
  return file;
}

}  // namespace lathe::test
