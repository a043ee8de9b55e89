# FleetlogTest::Wills: clients of device acme/d1 that leave a will with a delay behind, in sessions that are kept.
package FleetlogTest::Wills;

use strict;
use warnings;

# Seconds nobody waits for.
our $LONG = 1000000;

sub new
{
    my ($class, $s) = @_;
    return bless { s => $s }, $class;
}

# A connection with a session; with a will on "acme/d1/<id>" of that delay, unless it is undef.
sub client
{
    my ($self, $id, $delay, %opt) = @_;
    my $c = $self->{s}->raw;
    my %will = defined $delay ? (will => { topic => "acme/d1/$id", payload => $opt{payload} // 'w', qos => $opt{qos} // 1,
            properties => [ [ 24, $delay ], @{ $opt{properties} // [] } ] }) : ();
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => $opt{clean} // 0,
        properties => [ [ 17, $opt{expiry} // $LONG ] ], %will);
    die 'refused: ' . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}

# What has been published of it, in order.
sub published
{
    my ($self, $id) = @_;
    return $self->{s}->sql("SELECT coalesce(string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset), '') FROM telemetry WHERE key = 'acme/d1/$id'");
}

sub wait_for
{
    my ($self, @ids) = @_;
    my $keys = join ',', map { "acme/d1/$_" } @ids;
    $self->{s}->wait_for("SELECT count(DISTINCT key) FROM telemetry WHERE key = ANY ('{$keys}')", scalar @ids, "the wills of @ids");
    return;
}

# The session's end publishes a will that it still has, before CONNACK.
sub end_session
{
    my ($self, $id) = @_;
    $self->client($id, undef, clean => 1, expiry => 0)->disconnect;
    return;
}

1;
