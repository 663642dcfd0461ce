// NamesSent: records the names under which hosts were told to make objects, for tests that compare two controllers.
//
// A command is described by its kind and the names in it: its op, and arrays, transfers and fetches. Executables, launches and gangs are left
// out, because each controller counts them by itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/v1/dataflow.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class NamesSent {
 public:
  // The commands, by the number of the host and the name that each makes or answers. Equal ones, as announcements of an array, count once.
  using Commands = std::map<std::pair<int, uint64_t>, std::map<std::string, RequestName>>;

  void Add(int host, const ::pathways::v1::Command& command) {
    if (command.has_dataflow()) return AddRuns(host, command.dataflow());
    if (command.has_release() || command.has_grant()) return;  // they follow from answers, and make nothing
    const auto* kind = command.GetDescriptor()->FindFieldByNumber(command.kind_case());
    if (kind == nullptr) return;
    AddMessage(host, kind->name(), command.GetReflection()->GetMessage(command, kind));
  }
  const Commands& commands() const { return commands_; }

 private:
  // Of the runs that begin, only those of programs have an op that names a session's request.
  void AddRuns(int host, const ::pathways::v1::DataflowFrame& dataflow) {
    ::pathways::v1::dataflow::Frame frame;
    ASSERT_TRUE(frame.ParseFromString(dataflow.header()));
    for (const auto& start : frame.starts()) {
      ::pathways::v1::ProgramRun run;
      if (!run.ParseFromString(start.argument()) || !RequestName::Read(run.base()).has_value()) continue;
      AddMessage(host, "run", run);
    }
  }
  void AddMessage(int host, const std::string& kind, const google::protobuf::Message& message) {
    std::string text = kind;
    uint64_t first = 0;
    AddFields(message, &text, &first);
    if (first == 0) return;
    const std::optional<RequestName> name = RequestName::Read(first);
    ASSERT_TRUE(name.has_value()) << text;
    commands_[{host, first}].insert({text, *name});
  }
  static bool IsName(const std::string& field) {
    for (const char* name : {"op", "args", "results", "array", "arrays", "source", "result", "transfer", "source_array", "fetch",
                             "enqueued", "base"}) {
      if (field == name) return true;
    }
    return false;
  }
  // Appends the names in the message, in the order of the fields' numbers. `first`: gets the first of them.
  static void AddFields(const google::protobuf::Message& message, std::string* text, uint64_t* first) {
    using Field = google::protobuf::FieldDescriptor;
    const auto* reflection = message.GetReflection();
    std::vector<const Field*> fields;
    reflection->ListFields(message, &fields);
    for (const Field* field : fields) {
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
          AddFields(
              field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i) : reflection->GetMessage(message, field),
              text, first);
        } else if (field->cpp_type() == Field::CPPTYPE_UINT64 && IsName(field->name())) {
          const uint64_t name =
              field->is_repeated() ? reflection->GetRepeatedUInt64(message, field, i) : reflection->GetUInt64(message, field);
          absl::StrAppend(text, " ", field->name(), "=", name);
          if (*first == 0) *first = name;
        }
      }
    }
  }

  Commands commands_;
};

}  // namespace pw::controller
