# FleetlogTest::Scram: the client's half of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) and the AUTH packets of MQTT 5 that carry it.
# Plain functions over text: what is sent and read is the test's affair.
package FleetlogTest::Scram;

use strict;
use warnings;
use Digest::SHA qw(hmac_sha256 sha256 hmac_sha512 sha512);
use MIME::Base64 qw(encode_base64 decode_base64);
use Exporter 'import';
use FleetlogTest::Mqtt;

our @EXPORT_OK = qw(auth_packet prove log_in);
our $METHOD = 'SCRAM-SHA-256';

sub b64 { return encode_base64($_[0], ''); }

sub auth_packet
{
    my ($reason, $data, $method) = @_;
    return FleetlogTest::Mqtt::packet(0xF0, chr($reason) . FleetlogTest::Mqtt::properties([ [ 21, $method // $METHOD ], [ 22, $data ] ]));
}

# The final message for a server's first one, and what the server has to say then.  hash => 512 is the longer one.
sub prove
{
    my ($first, $server_first, $password, %opt) = @_;
    my ($hmac, $digest) = ($opt{hash} // 256) == 512 ? (\&hmac_sha512, \&sha512) : (\&hmac_sha256, \&sha256);
    my ($nonce, $salt, $rounds) = $server_first =~ /^r=([^,]+),s=([^,]+),i=(\d+)$/ or die "odd message: $server_first";
    my $u = $hmac->(decode_base64($salt) . pack('N', 1), $password);
    my $salted = $u;
    for (2 .. $rounds) { $u = $hmac->($u, $password); $salted ^= $u; }
    my $client_key = $hmac->('Client Key', $salted);
    my $without = 'c=' . ($opt{binding} // 'biws') . ',r=' . ($opt{nonce} // (($opt{before_nonce} // '') . $nonce));
    my $signed = join ',', substr($first, 3), $server_first, $without;
    my $proof = $client_key ^ $hmac->($signed, $digest->($client_key));
    return ("$without,p=" . b64($proof), 'v=' . b64($hmac->($signed, $hmac->('Server Key', $salted))));
}

# CONNECT and the proof of a client that has said nothing yet: the server's last answer.
sub log_in
{
    my ($client, $user, $password, $client_id) = @_;
    my $first = "n,,n=$user,r=nonce-of-$client_id";
    $client->send_raw($client->connect_packet(client_id => $client_id, properties => [ [ 21, $METHOD ], [ 22, $first ] ]));
    my $answer = $client->read_packet;
    return $answer unless ref $answer && $answer->{name} eq 'AUTH';
    my ($final) = prove($first, FleetlogTest::Mqtt::property($answer, 22), $password);
    $client->send_raw(auth_packet(0x18, $final));
    return $client->read_packet;
}

1;
