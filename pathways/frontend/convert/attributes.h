// Attribute maps between our code and the wire.
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
// Values of kinds not known here are left out.
Attributes AttributesFromProto(const xla::ifrt::AttributeMapProto& proto);

// Empty if it is missing or not a string.
std::string StringAttribute(const Attributes& attributes, const std::string& name);

}  // namespace pw::frontend
