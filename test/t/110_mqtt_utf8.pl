# M10: ill-formed UTF-8 and U+0000 in client ids, topics, filters and strings are refused.  Cases O09 and O10.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('utf8', conf => "fleetlog.allow_anonymous = on\n");
$s->sql("SELECT fleetlog.create_stream('telemetry'); SELECT fleetlog.mount('', 'telemetry')");

sub anonymous
{
    my ($version, $id) = @_;
    my $c = $s->raw(version => $version);
    my $ack = $c->login(client_id => $id);
    return ($c, ref $ack ? $ack->{reason} : 'closed');
}

my %bad = (
    'FF FE' => "\xff\xfe", 'U+0000' => "a\0b", 'a lone surrogate' => "\xed\xa0\x80", 'an overlong slash' => "\xc0\xaf",
    'an overlong NUL' => "\xc0\x80", 'a cut-off character' => "a\xe2\x82", 'above U+10FFFF' => "\xf4\x90\x80\x80");
my %good = ('two bytes' => "\xc3\xa9", 'three bytes' => "\xe2\x82\xac", 'four bytes' => "\xf0\x9f\x9a\x9a", 'U+FEFF' => "\xef\xbb\xbfx",
    'U+10FFFD' => "\xf4\x8f\xbf\xbd");

for my $name (sort keys %bad)
{
    my $text = $bad{$name};
    my ($c, $reason);

    (undef, $reason) = anonymous(4, $text);
    isnt($reason, 0, "O09: client id with $name, 3.1.1: $reason");
    (undef, $reason) = anonymous(5, $text);
    like($reason, qr/^(129|133|closed)$/, "O09: client id with $name, 5.0");
    for my $version (4, 5)
    {
        my $expected = $version == 5 ? qr/^0x(81|82|90|8F)$/ : qr/^closed$/;
        ($c) = anonymous($version, 'x');
        $c->send_raw(FleetlogTest::Mqtt::packet(0x82, "\0\1" . ($version == 5 ? "\0" : '') . FleetlogTest::Mqtt::str($text) . "\0"));
        like($c->ending, $expected, "O10: filter with $name, version $version");
        ($c) = anonymous($version, 'x');
        $c->publish($text, 'p');
        like($c->ending, $expected, "topic with $name, version $version");
    }
    ($c) = anonymous(5, 'x');
    $c->publish('t', 'p', properties => [ [ 38, 'name', $text ] ]);
    like($c->ending, qr/^0x8[12]$/, "user property with $name");
    ($c) = anonymous(5, 'x');
    $c->publish('t', 'p', properties => [ [ 3, $text ] ]);
    like($c->ending, qr/^0x8[12]$/, "content type with $name");
}
is($s->sql('SELECT count(*) FROM telemetry'), '0', 'nothing of that was stored');

my ($c) = anonymous(5, 'good');
my $n = 0;
for my $name (sort keys %good)
{
    is($c->publish_acked("t/$good{$name}", $good{$name}, properties => [ [ 38, $good{$name}, $good{$name} ] ]), 0, "topic with $name");
    $n++;
}
is($s->sql('SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = substr(key, 3)'), $n, 'keys and payloads are kept as sent');
is($s->sql("SELECT convert_to(key, 'UTF8') FROM telemetry WHERE key LIKE '%x'"), '\x742fefbbbf78', 'U+FEFF is kept');

# A payload is bytes: whatever it is, it is stored and delivered untouched.
my $bytes = join '', map { chr } 0 .. 255;
$c->subscribe([ 'raw' ]);
$c->publish('raw', $bytes);
is(($c->messages(1))[0]{payload}, $bytes, 'all byte values come back');
is($s->sql("SELECT md5(payload) FROM telemetry WHERE key = 'raw'"), $s->sql("SELECT md5('\\x" . unpack('H*', $bytes) . "'::bytea)"), 'and lie in the table');
is($s->sql("SELECT fleetlog.text(payload) IS NULL FROM telemetry WHERE key = 'raw'"), 't', 'as text it is NULL');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
