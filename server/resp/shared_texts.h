// Texts that the outputs of many clients share: invalidations, messages, lines of MONITOR.
//
// Such a text is in memory once, even if many clients still have to receive it. So it is charged to the memory budget once, but
// counts in full against the output limit of each client (OutputBuffer::append_shared).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace ebbtide {

/// Charges shared texts to the memory budget. Thread-safe; must outlive all texts.
class SharedTexts {
 public:
  /// Charge and release bytes of the memory budget. Set once, before use; null: nothing is charged.
  std::function<void(std::size_t bytes)> charge, release;

  /// The charge of one text; its destructor releases it.
  class Charge {
   public:
    Charge(const SharedTexts& texts, std::size_t bytes) : texts_(texts), bytes_(bytes) {
      if (texts_.charge) texts_.charge(bytes_);
    }
    ~Charge() {
      if (texts_.release) texts_.release(bytes_);
    }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

   private:
    const SharedTexts& texts_;
    const std::size_t bytes_;
  };

  /// Returns the text, which owns its charge.
  [[nodiscard]] std::shared_ptr<const std::string> share(std::string text) const {
    struct Charged {
      Charged(const SharedTexts& texts, std::string from) : charge(texts, from.size()), text(std::move(from)) {}
      Charge charge;
      const std::string text;
    };
    auto charged = std::make_shared<const Charged>(*this, std::move(text));
    return {charged, &charged->text};
  }
};

}  // namespace ebbtide
