#include "pathways/frontend/convert/attributes.h"

namespace pw::frontend {
namespace {

using Value = xla::ifrt::AttributeMapProto::Value;

struct Writer {
  Value* value;
  void operator()(const std::string& v) const { value->set_string_value(v); }
  void operator()(bool v) const { value->set_bool_value(v); }
  void operator()(int64_t v) const { value->set_int64_value(v); }
  void operator()(float v) const { value->set_float_value(v); }
  void operator()(const std::vector<int64_t>& v) const {
    value->mutable_int64_list_value()->mutable_elements()->Assign(v.begin(), v.end());
  }
};

}  // namespace

xla::ifrt::AttributeMapProto AttributesToProto(const Attributes& attributes) {
  xla::ifrt::AttributeMapProto proto;
  for (const auto& [name, attribute] : attributes) std::visit(Writer{&(*proto.mutable_attributes())[name]}, attribute);
  return proto;
}

Attributes AttributesFromProto(const xla::ifrt::AttributeMapProto& proto) {
  Attributes attributes;
  for (const auto& [name, value] : proto.attributes()) {
    switch (value.value_case()) {
      case Value::kStringValue:
        attributes[name] = value.string_value();
        break;
      case Value::kBoolValue:
        attributes[name] = value.bool_value();
        break;
      case Value::kInt64Value:
        attributes[name] = static_cast<int64_t>(value.int64_value());
        break;
      case Value::kFloatValue:
        attributes[name] = value.float_value();
        break;
      case Value::kInt64ListValue: {
        const auto& elements = value.int64_list_value().elements();
        attributes[name] = std::vector<int64_t>(elements.begin(), elements.end());
        break;
      }
      case Value::VALUE_NOT_SET:
        break;
    }
  }
  return attributes;
}

std::string StringAttribute(const Attributes& attributes, const std::string& name) {
  auto it = attributes.find(name);
  const std::string* value = it == attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
  return value == nullptr ? "" : *value;
}

}  // namespace pw::frontend
