# What talks, lies and listens on the network of a test. Words: see each part.
use strict;
use warnings;
use Socket qw(:all);
$| = 1;
my ($mode, @words) = @ARGV;
# Nothing of this waits for ever.
alarm 900;

sub family { $_[0] =~ /:/ ? AF_INET6 : AF_INET }

sub address {
    my ($text, $port) = @_;
    my $bytes = inet_pton(family($text), $text) or fail("no address: $text");
    return $text =~ /:/ ? pack_sockaddr_in6($port, $bytes) : pack_sockaddr_in($port, $bytes);
}

sub shown {
    my ($name) = @_;
    if (sockaddr_family($name) == AF_INET6) {
        my $text = inet_ntop(AF_INET6, (unpack_sockaddr_in6($name))[1]);
        $text =~ s/^::ffff:(?=\d+\.)//;
        return $text;
    }
    return inet_ntop(AF_INET, (unpack_sockaddr_in($name))[1]);
}

sub fail { print "error: @_\n"; exit 0 }

# serve NAME ADDRESS PORT: says who it is and whom it sees.
sub serve {
    my ($name, $address, $port) = @_;
    socket(my $server, family($address), SOCK_STREAM, 0) or fail("socket: $!");
    setsockopt($server, SOL_SOCKET, SO_REUSEADDR, 1);
    setsockopt($server, IPPROTO_IPV6, IPV6_V6ONLY, 0) if $address eq "::";
    bind($server, address($address, $port)) or fail("bind: $!");
    listen($server, 16) or fail("listen: $!");
    print "ready\n";
    while (1) {
        my $peer = accept(my $client, $server) or next;
        print $client "$name sees ", shown($peer), "\n";
        close $client;
    }
}

# ask ADDRESS PORT: prints what a server says.
sub ask {
    my ($address, $port) = @_;
    socket(my $server, family($address), SOCK_STREAM, 0) or fail("socket: $!");
    connect($server, address($address, $port)) or fail("connect: $!");
    print <$server>;
}

# echo NAME ADDRESS PORT: answers each datagram with who it is and whom it sees.
sub answer {
    my ($name, $address, $port) = @_;
    socket(my $server, family($address), SOCK_DGRAM, 0) or fail("socket: $!");
    setsockopt($server, IPPROTO_IPV6, IPV6_V6ONLY, 0) if $address eq "::";
    bind($server, address($address, $port)) or fail("bind: $!");
    print "ready\n";
    while (defined(my $peer = recv($server, my $text, 1500, 0))) {
        send($server, "$name sees " . shown($peer) . ": $text", 0, $peer);
    }
}

# query ADDRESS PORT TEXT: sends a datagram and prints the answer. The kernel drops datagrams of
# any other address and port than those asked.
sub query {
    my ($address, $port, $text) = @_;
    socket(my $socket, family($address), SOCK_DGRAM, 0) or fail("socket: $!");
    connect($socket, address($address, $port)) or fail("connect: $!");
    for (1 .. 20) {
        send($socket, $text, 0) or fail("send: $!");
        vec(my $ready = "", fileno($socket), 1) = 1;
        next unless select($ready, undef, undef, 1);
        defined recv($socket, my $answer, 1500, 0) or fail("recv: $!");
        print "$answer\n";
        return;
    }
    fail("no answer");
}

# ping ADDRESS: with a socket that everybody may have.
sub ping {
    my ($address) = @_;
    my $v6 = $address =~ /:/;
    socket(my $ping, family($address), SOCK_DGRAM, $v6 ? 58 : 1) or fail("socket: $!");
    for my $number (1 .. 300) {
        my $echo = pack("CCnnna8", $v6 ? 128 : 8, 0, 0, 0, $number, "question");
        send($ping, $echo, 0, address($address, 0)) or fail("send: $!");
        vec(my $ready = "", fileno($ping), 1) = 1;
        next unless select($ready, undef, undef, 1);
        my $from = recv($ping, my $answer, 1500, 0);
        fail("recv: $!") unless defined $from;
        print "answer of ", shown($from), "\n";
        return;
    }
    fail("no answer");
}

# udp SOURCE TARGET TEXT: sends from an address that need not be its own.
sub udp {
    my ($source, $target, $text) = @_;
    socket(my $socket, family($target), SOCK_DGRAM, 0) or fail("socket: $!");
    # IPV6_FREEBIND and IP_FREEBIND.
    my ($level, $option) = $source =~ /:/ ? (41, 78) : (0, 15);
    setsockopt($socket, $level, $option, 1) or fail("freebind: $!");
    bind($socket, address($source, 0)) or fail("bind: $!");
    send($socket, $text, 0, address($target, 9)) or fail("send: $!");
    print "sent\n";
}

# raw TARGET HEX: sends an IPv4 packet with a header of its own.
sub raw {
    my ($target, $packet) = @_;
    socket(my $socket, AF_INET, SOCK_RAW, 255) or fail("socket: $!");
    send($socket, pack("H*", $packet), 0, address($target, 0)) or fail("send: $!");
    print "sent\n";
}

# frames LINK HEX...: sends frames as they are.
sub frames {
    my ($link, @frames) = @_;
    socket(my $socket, 17, SOCK_RAW, 0) or fail("socket: $!");
    my $request = pack("a16 x24", $link);
    ioctl($socket, 0x8933, $request) or fail("$link: $!");
    my $index = unpack("x16 i", $request);
    my $name = pack("S n i S C C a8", 17, 0x0003, $index, 0, 0, 6, "");
    for my $frame (@frames) {
        defined send($socket, pack("H*", $frame), 0, $name) or fail("send: $!");
    }
    print "sent\n";
}

# listen: prints every frame of every link.
sub hear {
    socket(my $socket, 17, SOCK_RAW, unpack("S", pack("n", 3))) or fail("socket: $!");
    setsockopt($socket, SOL_SOCKET, 33, 1 << 24);    # SO_RCVBUFFORCE
    print "ready\n";
    while (defined recv($socket, my $frame, 70000, 0)) {
        print unpack("H*", $frame), "\n";
    }
}

my %modes = (
    serve => \&serve, ask => \&ask, ping => \&ping, udp => \&udp,
    echo => \&answer, query => \&query,
    raw => \&raw, frames => \&frames, listen => \&hear,
);
$modes{$mode}->(@words);
