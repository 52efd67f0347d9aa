#include "graph/import/onnx/float_form.h"

#include <algorithm>

namespace lathe::onnx {

std::string_view FloatForm::new_name() {
  Builder& builder = n_.builder();
  names_.push_back(builder.value_name(n_.name() + ":" + std::string(proto_.op_type)));
  builder.reserved.insert(names_.back());
  return names_.back();
}

void FloatForm::operand(Binding b) {
  const std::string_view name = new_name();
  n_.builder().names[std::string(name)] = std::move(b);
  proto_.inputs.push_back(name);
}

void FloatForm::take_attributes(std::initializer_list<std::string_view> but) {
  for (const Attribute& a : n_.proto().attributes) {
    if (std::find(but.begin(), but.end(), a.name) != but.end()) continue;
    n_.ignore(a.name);
    proto_.attributes.push_back(a);
  }
}

void FloatForm::set(std::string_view attribute, int64_t v) {
  Attribute a;
  a.name = attribute;
  a.type = AttributeType::kInt;
  a.i = v;
  proto_.attributes.push_back(std::move(a));
}

void FloatForm::set(std::string_view attribute, float v) {
  Attribute a;
  a.name = attribute;
  a.type = AttributeType::kFloat;
  a.f = v;
  proto_.attributes.push_back(std::move(a));
}

Result<ValueId> FloatForm::run() {
  Builder& builder = n_.builder();
  const std::string_view result = new_name();
  proto_.outputs = {result};
  const OpImport* op = find_op_import(proto_.op_type);
  NodeImport inner(builder, proto_, n_.name());
  LATHE_CHECK_OK(op->import(inner));
  if (const auto unread = inner.unread_attribute())
    return fail(Code::kUnsupported, "attribute '" + *unread + "' is not supported");
  const Binding made = builder.names[std::string(result)];
  for (const std::string& name : names_) builder.names.erase(name);
  if (made.tensor) return builder.constant(*made.tensor);
  return made.value;
}

}  // namespace lathe::onnx
