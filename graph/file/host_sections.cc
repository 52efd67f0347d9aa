#include "graph/file/host_sections.h"

#include "graph/file/model_generated.h"

namespace lathe {
namespace {

namespace fb = flatbuffers;

template <class V> uint32_t count(const V* v) { return v == nullptr ? 0 : v->size(); }
std::string text(const fb::String* s) { return s == nullptr ? std::string() : s->str(); }

// `root` verified as the table that `section` holds; null if it is damaged.
template <class T>
const T* verified(Bytes section) {
  fb::Verifier verifier(section.data, section.size, /*max_depth=*/16, /*max_tables=*/1u << 22);
  if (section.data == nullptr || section.size < 8 || !verifier.VerifyBuffer<T>(nullptr)) return nullptr;
  return fb::GetRoot<T>(section.data);
}

fb::Offset<fb::Vector<fb::Offset<fbs::Array>>> write_arrays(fb::FlatBufferBuilder& b, const std::vector<TestArray>& arrays) {
  std::vector<fb::Offset<fbs::Array>> list;
  for (const TestArray& a : arrays) list.push_back(fbs::CreateArrayDirect(b, static_cast<uint8_t>(a.dtype), &a.dims, &a.data));
  return b.CreateVector(list);
}

// Arrays whose data is as long as dtype and dims say.
Result<std::vector<TestArray>> read_arrays(const fb::Vector<fb::Offset<fbs::Array>>* list) {
  std::vector<TestArray> out;
  for (uint32_t i = 0; i < count(list); ++i) {
    const fbs::Array& a = *list->Get(i);
    TestArray array{static_cast<DType>(a.dtype()), {}, {}};
    Shape shape;
    if (count(a.dims()) > kMaxRank)
      return fail(Code::kCorrupt, "section tests: an array has rank " + std::to_string(count(a.dims())));
    for (uint32_t d = 0; d < count(a.dims()); ++d) {
      array.dims.push_back(a.dims()->Get(d));
      shape.dims[shape.rank++] = a.dims()->Get(d);
    }
    uint32_t elems = 0;
    const uint32_t elem_bytes = dtype_bytes(array.dtype);
    if (elem_bytes == 0 || !checked_elems(shape, elem_bytes, &elems) || uint64_t{elems} * elem_bytes != count(a.data())) {
      return fail(Code::kCorrupt, "section tests: an array has " + std::to_string(count(a.data())) +
                                      " bytes, which its type and dims do not give");
    }
    if (count(a.data()) > 0) array.data.assign(a.data()->begin(), a.data()->end());
    out.push_back(std::move(array));
  }
  return out;
}

}  // namespace

std::vector<uint8_t> write_calib(const std::vector<ObservedValue>& observed) {
  fb::FlatBufferBuilder b;
  std::vector<fb::Offset<fbs::Observed>> list;
  for (const ObservedValue& o : observed)
    list.push_back(fbs::CreateObservedDirect(b, o.name.c_str(), o.lo, o.hi, &o.bins, o.observer.c_str()));
  b.Finish(fbs::CreateCalibDirect(b, &list));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<std::vector<ObservedValue>> read_calib(Bytes section) {
  const fbs::Calib* calib = verified<fbs::Calib>(section);
  if (calib == nullptr) return fail(Code::kCorrupt, "section calib is damaged");
  std::vector<ObservedValue> out;
  for (uint32_t i = 0; i < count(calib->observed()); ++i) {
    const fbs::Observed& o = *calib->observed()->Get(i);
    if (count(o.bins()) > kMaxCalibBins)
      return fail(Code::kCorrupt, "section calib: '" + text(o.name()) + "' has " + std::to_string(count(o.bins())) + " bins");
    ObservedValue value{text(o.name()), o.lo(), o.hi(), {}, text(o.observer())};
    if (count(o.bins()) > 0) value.bins.assign(o.bins()->begin(), o.bins()->end());
    out.push_back(std::move(value));
  }
  return out;
}

std::vector<uint8_t> write_tests(const std::vector<SelfCheck>& cases) {
  fb::FlatBufferBuilder b;
  std::vector<fb::Offset<fbs::SelfCheck>> list;
  for (const SelfCheck& c : cases) {
    const auto inputs = write_arrays(b, c.inputs), outputs = write_arrays(b, c.outputs);
    list.push_back(fbs::CreateSelfCheck(b, inputs, outputs));
  }
  b.Finish(fbs::CreateTestsDirect(b, &list));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<std::vector<SelfCheck>> read_tests(Bytes section) {
  const fbs::Tests* tests = verified<fbs::Tests>(section);
  if (tests == nullptr) return fail(Code::kCorrupt, "section tests is damaged");
  std::vector<SelfCheck> out;
  for (uint32_t i = 0; i < count(tests->cases()); ++i) {
    SelfCheck check;
    LATHE_TRY(check.inputs, read_arrays(tests->cases()->Get(i)->inputs()));
    LATHE_TRY(check.outputs, read_arrays(tests->cases()->Get(i)->outputs()));
    out.push_back(std::move(check));
  }
  return out;
}

}  // namespace lathe
