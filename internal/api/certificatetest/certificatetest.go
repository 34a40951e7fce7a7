// Package certificatetest makes certificates for tests of TLS. It must not know
// who serves them.
package certificatetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The files of Write, named as in a Secret of Kubernetes.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// Write puts a new certificate for 127.0.0.1 with the serial number into the
// folder, and its key, both as of the time.
func Write(tb testing.TB, dir string, serial int64, at time.Time) *x509.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: at.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{CertFile: {Type: "CERTIFICATE", Bytes: der}, KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			tb.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			tb.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}
