#include "plugins/c_table/named_values.h"

namespace pw::c_table {

void NamedValues::Add(std::string name, Value value) {
  values_.emplace_back(std::move(name), std::move(value));
  const auto& [stored_name, stored] = values_.back();
  PJRT_NamedValue view{PJRT_NamedValue_STRUCT_SIZE};
  view.name = stored_name.data();
  view.name_size = stored_name.size();
  view.value_size = 1;
  if (const auto* text = std::get_if<std::string>(&stored)) {
    view.type = PJRT_NamedValue_kString;
    view.string_value = text->data();
    view.value_size = text->size();
  } else if (const auto* flag = std::get_if<bool>(&stored)) {
    view.type = PJRT_NamedValue_kBool;
    view.bool_value = *flag;
  } else if (const auto* number = std::get_if<int64_t>(&stored)) {
    view.type = PJRT_NamedValue_kInt64;
    view.int64_value = *number;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&stored)) {
    view.type = PJRT_NamedValue_kInt64List;
    view.int64_array_value = list->data();
    view.value_size = list->size();
  } else {
    view.type = PJRT_NamedValue_kFloat;
    view.float_value = std::get<float>(stored);
  }
  views_.push_back(view);
}

}  // namespace pw::c_table
