#include "plugins/pathways_pjrt/ports.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"

namespace pw::pathways_pjrt {
namespace {

constexpr char kProgram[] = "pathways_program";
constexpr char kPort[] = "pathways_port";
constexpr int kMostPorts = 1 << 16;

absl::Status Bad(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("the compile option ", kPort, " has the form KEY:PORTS:NUMBER:PARAMETERS:RESULTS, not '", text, "'"));
}

bool ReadPositions(absl::string_view text, std::vector<int32_t>* positions) {
  if (text.empty()) return true;
  for (absl::string_view one : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(one, &positions->emplace_back()) || positions->back() < 0) return false;
  }
  return true;
}

absl::StatusOr<PortOptions> ReadPort(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  PortOptions port;
  if (parts.size() != 5 || parts[0].empty() || !absl::SimpleAtoi(parts[1], &port.ports) ||
      !absl::SimpleAtoi(parts[2], &port.number) || !ReadPositions(parts[3], &port.parameters) ||
      !ReadPositions(parts[4], &port.results))
    return Bad(text);
  if (port.ports < 1 || port.ports > kMostPorts || port.number < 0 || port.number >= port.ports) return Bad(text);
  port.key = std::string(parts[0]);
  return port;
}

// Checks that the positions are below `count` and not in `taken`, and adds them there.
absl::Status Take(const std::vector<int32_t>& positions, size_t count, absl::string_view what, std::set<int32_t>* taken) {
  for (int32_t i : positions) {
    if (static_cast<size_t>(i) >= count || !taken->insert(i).second)
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", i, " of a program of ", count, " does not exist, or is another port's"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<PortOptions>> ReadPortOptions(const xla::CompileOptionsProto& options) {
  const auto& overrides = options.env_option_overrides();
  const auto port = overrides.find(kPort);
  if (port == overrides.end()) return std::optional<PortOptions>();
  PW_ASSIGN_OR_RETURN(PortOptions read, ReadPort(port->second.string_field()));
  if (const auto program = overrides.find(kProgram); program != overrides.end()) {
    if (!absl::Base64Unescape(program->second.string_field(), &read.program))
      return absl::InvalidArgumentError(absl::StrCat("the compile option ", kProgram, " is not in base64"));
  }
  return std::optional<PortOptions>(std::move(read));
}

absl::StatusOr<client::Executable> ManyNodes::AddPort(const PortOptions& port, std::vector<DeviceId> devices) {
  std::lock_guard<std::mutex> lock(mu_);
  if (port.ports != ports_)
    return absl::InvalidArgumentError(absl::StrCat("program ", info_->name, " has ", ports_, " ports, not ", port.ports));
  PW_RETURN_IF_ERROR(Take(port.parameters, info_->parameters.size(), "parameter", &parameters_));
  PW_RETURN_IF_ERROR(Take(port.results, info_->outputs.size(), "result", &results_));
  auto part = std::make_shared<session::ExecutableInfo>();
  part->name = info_->name;
  part->fingerprint = absl::StrCat(info_->fingerprint, ", port ", port.number);
  part->devices = std::move(devices);
  for (size_t i = 0; i < port.parameters.size(); ++i) {
    part->parameters.push_back(info_->parameters[port.parameters[i]]);
    for (int32_t donated : info_->donated_inputs) {
      if (donated == port.parameters[i]) part->donated_inputs.push_back(static_cast<int32_t>(i));
    }
  }
  for (int32_t o : port.results) {
    part->outputs.push_back(info_->outputs[o]);
    part->output_specs.push_back(info_->output_specs[o]);
    if (part->output_specs.back().sharding.devices() != part->devices)
      return absl::InvalidArgumentError(
          absl::StrCat("result ", o, " of program ", info_->name, " is not on the devices of port ", port.number));
  }
  return client::Executable(std::move(part));
}

void ManyNodes::Begin() {
  executed_.clear();
  arguments_.assign(info_->parameters.size(), nullptr);
  arrays_ = session_->Name(info_);
  run_ = {};
  sent_ = Promise<Unit>();  // cancels the waiters for a call that was given up
  for (const client::Array& array : arrays_) run_.results.push_back(array.handle());
}

absl::Status ManyNodes::Send() {
  std::vector<const client::Array*> arguments;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i] == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("no port of program ", info_->name, " takes its argument ", i));
    arguments.push_back(&arguments_[i]->array());
  }
  session_->Execute(info_, arguments, std::exchange(run_, {}));
  sent_.Set(Unit());
  executed_.clear();
  arguments_.clear();
  arrays_.clear();
  return absl::OkStatus();
}

absl::StatusOr<PortResults> ManyNodes::Execute(const PortOptions& port,
                                               const std::vector<std::shared_ptr<SharedArray>>& arguments,
                                               const std::vector<int32_t>& kept) {
  std::lock_guard<std::mutex> lock(mu_);
  if (executed_.empty() || executed_.contains(port.number)) Begin();
  executed_.insert(port.number);
  for (size_t i = 0; i < port.parameters.size(); ++i) arguments_[port.parameters[i]] = arguments[i];
  for (int32_t i : kept) {
    if (i >= 0 && static_cast<size_t>(i) < port.parameters.size()) run_.non_donatable.push_back(port.parameters[i]);
  }
  PortResults results{{}, sent_.future()};
  for (int32_t o : port.results) results.arrays.push_back(std::move(arrays_[o]));
  if (static_cast<int>(executed_.size()) == ports_) PW_RETURN_IF_ERROR(Send());
  return results;
}

}  // namespace pw::pathways_pjrt
