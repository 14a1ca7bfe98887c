// Owners of OpenSSL's objects. Private to common/tls.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace muster {

template <typename T, void (*Free)(T*)>
struct FreeBy {
  void operator()(T* object) const { Free(object); }
};

inline void FreeBio(BIO* bio) { BIO_free(bio); }

using OwnedBio = std::unique_ptr<BIO, FreeBy<BIO, &FreeBio>>;
using OwnedCertificate = std::unique_ptr<X509, FreeBy<X509, &X509_free>>;
using OwnedRequest = std::unique_ptr<X509_REQ, FreeBy<X509_REQ, &X509_REQ_free>>;
using OwnedStore = std::unique_ptr<X509_STORE, FreeBy<X509_STORE, &X509_STORE_free>>;
using OwnedStoreContext =
    std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX, &X509_STORE_CTX_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY, &EVP_PKEY_free>>;
using OwnedExtension =
    std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION, &X509_EXTENSION_free>>;

inline OwnedBio BioOf(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// What was written to a memory BIO.
inline std::string TextOf(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return size <= 0 ? "" : std::string(text, static_cast<size_t>(size));
}

// A callback for PEM readers: nothing asks for a password at a terminal.
inline int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace muster
