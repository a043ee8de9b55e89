# FleetlogTest::Pki: a certificate authority of a test, made by the openssl program.
#
# Certificates lie in a folder as NAME.crt and NAME.key, the authority's as ca.crt, its list of revoked ones as ca.crl.
# Keys are elliptic, which are made in no time.
package FleetlogTest::Pki;

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run ();

sub openssl
{
    my (@args) = @_;
    my ($out, $err) = ('', '');

    IPC::Run::run([ 'openssl', @args ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT))
      or confess("openssl @args: $err");
    return $out;
}

sub write_file
{
    my ($name, $text) = @_;

    open my $f, '>', $name or confess("$name: $!");
    print $f $text;
    close $f or confess("$name: $!");
    return;
}

sub new
{
    my ($class, $dir, $name) = @_;
    my $self = bless { dir => $dir }, $class;

    mkdir $dir or confess("$dir: $!");
    write_file("$dir/index.txt", '');
    write_file("$dir/index.txt.attr", "unique_subject = no\n");
    write_file("$dir/serial", "1000\n");
    write_file("$dir/crlnumber", "01\n");
    write_file("$dir/ca.cnf", <<"CONF");
[ca]
default_ca = it
[it]
database = $dir/index.txt
serial = $dir/serial
crlnumber = $dir/crlnumber
new_certs_dir = $dir
certificate = $dir/ca.crt
private_key = $dir/ca.key
default_md = sha256
default_days = 10
default_crl_days = 10
policy = any
copy_extensions = copy
[any]
countryName = optional
organizationName = optional
commonName = optional
[req]
distinguished_name = dn
[dn]
CONF
    $self->key('ca');
    openssl('req', '-x509', '-config', "$dir/ca.cnf", '-new', '-key', "$dir/ca.key", '-subj', '/CN=' . ($name // 'test ca'), '-days', 30,
        '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'subjectKeyIdentifier=hash', '-out', "$dir/ca.crt");
    $self->list;
    return $self;
}

sub file { my ($self, $name) = @_; return "$self->{dir}/$name"; }

sub key
{
    my ($self, $name) = @_;

    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', "$self->{dir}/$name.key");
    chmod 0600, "$self->{dir}/$name.key";
    return;
}

# Options: subject => '/CN=x', san => 'DNS:a,URI:b', start and end => YYMMDDHHMMSSZ.
sub issue
{
    my ($self, $name, %opt) = @_;
    my $dir = $self->{dir};

    $self->key($name);
    openssl('req', '-new', '-config', "$dir/ca.cnf", '-utf8', '-key', "$dir/$name.key", '-subj', $opt{subject} // "/CN=$name",
        ($opt{san} ? ('-addext', "subjectAltName=$opt{san}") : ()), '-out', "$dir/$name.csr");
    openssl('ca', '-batch', '-notext', '-utf8', '-config', "$dir/ca.cnf", '-in', "$dir/$name.csr", '-out', "$dir/$name.crt",
        ($opt{start} ? ('-startdate', $opt{start}) : ()), ($opt{end} ? ('-enddate', $opt{end}) : ()));
    return;
}

sub revoke
{
    my ($self, $name) = @_;

    openssl('ca', '-config', "$self->{dir}/ca.cnf", '-revoke', "$self->{dir}/$name.crt");
    $self->list;
    return;
}

# Writes the list of revoked certificates anew.
sub list
{
    my ($self) = @_;

    openssl('ca', '-config', "$self->{dir}/ca.cnf", '-gencrl', '-out', "$self->{dir}/ca.crl");
    return;
}

1;
