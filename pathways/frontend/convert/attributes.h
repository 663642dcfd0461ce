// Conversion of attribute maps between our types and the wire.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ifrt_proxy/ifrt.pb.h"

namespace pw::frontend {

using Attribute = std::variant<std::string, bool, int64_t, std::vector<int64_t>, float>;
using Attributes = std::map<std::string, Attribute>;

xla::ifrt::AttributeMapProto AttributesToProto(const Attributes& attributes);
// Leaves out values of unknown kinds.
Attributes AttributesFromProto(const xla::ifrt::AttributeMapProto& proto);

// Returns "" if it is missing or not a string.
std::string StringAttribute(const Attributes& attributes, const std::string& name);

}  // namespace pw::frontend
