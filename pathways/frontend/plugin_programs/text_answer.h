// TextAnswer: base of plugin programs that ask the cluster something and answer with text. Compiling one asks the question; executing it, without
// arguments, returns the text as an array u8[length] on a device of the cluster.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

class TextAnswer : public PluginExecutable {
 public:
  explicit TextAnswer(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const override;
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session, absl::Span<const controller::Handle> args) override;
  absl::Status Execute(ClientSession& session, absl::Span<const controller::Handle> args, absl::Span<const controller::Handle> results,
                       controller::StatusCallback done) override;

 protected:
  std::string answer_ = "{}";  // set by Prepare

 private:
  const std::string name_;
};

}  // namespace pw::frontend
